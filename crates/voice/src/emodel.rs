//! The E-model, ITU-T G.107: from the parameters of a connection to a rating R and a MOS.
//!
//! ```text
//!  R = Ro − Is − Id − Ie,eff + A
//!      |    |    |    |        └ advantage of access: what users forgive for mobility
//!      |    |    |    └ codec and packet loss, with the burstiness of the loss
//!      |    |    └ delay: talker echo, listener echo, and delay itself
//!      |    └ what comes together with the voice: loudness, sidetone, quantisation
//!      └ signal-to-noise ratio
//! ```
//!
//! All formulas of the narrowband algorithm are here with the recommendation's default values, so that a caller can
//! vary any of them; a packet call changes four (see [`Parameters::for_call`]). [Papadimitriou06 §4.3] uses the model;
//! [`satisfaction`], [`delay_class`] and [`jitter_class`] describe a number in the words of that paper's Tables II-IV.

mod codec;
mod runs;

pub use codec::Codec;
pub use runs::Runs;
pub(crate) use runs::burst_ratio as burst_ratio_of;

/// Expected codec and loss behaviour, ITU-T G.113 Appendix I.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Concealment {
    /// G.711 with the packet-loss concealment of its Appendix I: Ie = 0, Bpl = 25.1.
    #[default]
    AppendixI,
    /// G.711 that plays silence for a lost packet: Ie = 0, Bpl = 4.3.
    None,
}

impl Concealment {
    /// Returns the packet-loss robustness factor Bpl.
    #[must_use]
    pub fn robustness(self) -> f64 {
        match self {
            Concealment::AppendixI => 25.1,
            Concealment::None => 4.3,
        }
    }
}

/// The input of the model; names as in the recommendation. `default()` gives its Table 2.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Parameters {
    /// SLR: sending loudness rating, dB.
    pub send_loudness_db: f64,
    /// RLR: receiving loudness rating, dB.
    pub receive_loudness_db: f64,
    /// STMR: sidetone masking rating, dB.
    pub sidetone_db: f64,
    /// LSTR: listener sidetone rating, dB.
    pub listener_sidetone_db: f64,
    /// Ds: D-value of the telephone at the sending side.
    pub send_d_value: f64,
    /// TELR: talker echo loudness rating, dB.
    pub talker_echo_db: f64,
    /// WEPL: weighted echo path loss, dB.
    pub echo_path_loss_db: f64,
    /// T: mean one-way delay of the echo path, ms.
    pub echo_delay_ms: f64,
    /// Tr: round-trip delay in a 4-wire loop, ms.
    pub round_trip_ms: f64,
    /// Ta: absolute one-way delay from mouth to ear, ms.
    pub absolute_delay_ms: f64,
    /// qdu: number of quantisation distortion units.
    pub quantisation_units: f64,
    /// Ie: equipment impairment factor of the codec.
    pub equipment_impairment: f64,
    /// Bpl: packet-loss robustness factor.
    pub loss_robustness: f64,
    /// Ppl: random packet-loss probability, percent.
    pub loss_percent: f64,
    /// BurstR: burst ratio, 1 for random loss.
    pub burst_ratio: f64,
    /// Nc: circuit noise referred to the 0 dBr point, dBm0p.
    pub circuit_noise_dbm0p: f64,
    /// Nfor: noise floor at the receiving side, dBmp.
    pub noise_floor_dbmp: f64,
    /// Ps: room noise at the sending side, dB(A).
    pub send_room_noise_db: f64,
    /// Pr: room noise at the receiving side, dB(A).
    pub receive_room_noise_db: f64,
    /// A: advantage factor.
    pub advantage: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            send_loudness_db: 8.0,
            receive_loudness_db: 2.0,
            sidetone_db: 15.0,
            listener_sidetone_db: 18.0,
            send_d_value: 3.0,
            talker_echo_db: 65.0,
            echo_path_loss_db: 110.0,
            echo_delay_ms: 0.0,
            round_trip_ms: 0.0,
            absolute_delay_ms: 0.0,
            quantisation_units: 1.0,
            equipment_impairment: 0.0,
            loss_robustness: 4.3,
            loss_percent: 0.0,
            burst_ratio: 1.0,
            circuit_noise_dbm0p: -70.0,
            noise_floor_dbmp: -64.0,
            send_room_noise_db: 35.0,
            receive_room_noise_db: 35.0,
            advantage: 0.0,
        }
    }
}

impl Parameters {
    /// Returns the parameters of a G.711 call over packets: `delay_us` is the delay from mouth to ear, `missed` the
    /// fraction of packets that the decoder did not get in time.
    ///
    /// The echo returns over the same network, so T = Ta and Tr = 2·Ta.
    #[must_use]
    pub fn for_call(
        delay_us: u64,
        missed: f64,
        burst_ratio: f64,
        concealment: Concealment,
    ) -> Self {
        let delay_ms = delay_us as f64 / 1000.0;
        Self {
            echo_delay_ms: delay_ms,
            round_trip_ms: 2.0 * delay_ms,
            absolute_delay_ms: delay_ms,
            loss_robustness: concealment.robustness(),
            loss_percent: 100.0 * missed.clamp(0.0, 1.0),
            burst_ratio,
            ..Self::default()
        }
    }

    /// Runs the model.
    #[must_use]
    pub fn rate(&self) -> Rating {
        let noise = self.noise_dbm0p();
        let signal_to_noise = 15.0 - 1.5 * (self.send_loudness_db + noise);
        let simultaneous = self.simultaneous(noise, signal_to_noise);
        let talker_echo = self.talker_echo(noise);
        let listener_echo = self.listener_echo(signal_to_noise);
        let absolute_delay = self.absolute_delay();
        let equipment = self.effective_equipment_impairment();
        let delay = talker_echo + listener_echo + absolute_delay;
        Rating {
            signal_to_noise,
            simultaneous,
            talker_echo,
            listener_echo,
            absolute_delay,
            equipment,
            r: signal_to_noise - simultaneous - delay - equipment + self.advantage,
        }
    }

    /// Computes No: the sum of all noise at the 0 dBr point (G.107 §7.2).
    fn noise_dbm0p(&self) -> f64 {
        let overall_loudness = self.send_loudness_db + self.receive_loudness_db;
        let send_excess = self.send_room_noise_db - overall_loudness - self.send_d_value - 14.0;
        let send_room = self.send_room_noise_db - self.send_loudness_db - self.send_d_value - 100.0
            + 0.004 * send_excess.powi(2);
        let effective_room = self.receive_room_noise_db
            + 10.0 * (1.0 + 10_f64.powf((10.0 - self.listener_sidetone_db) / 10.0)).log10();
        let receive_room = self.receive_loudness_db - 121.0
            + effective_room
            + 0.008 * (effective_room - 35.0).powi(2);
        let floor = self.noise_floor_dbmp + self.receive_loudness_db;
        add_levels_db(&[self.circuit_noise_dbm0p, send_room, receive_room, floor])
    }

    /// Computes Is: impairments that come together with the voice (G.107 §7.3).
    fn simultaneous(&self, noise: f64, signal_to_noise: f64) -> f64 {
        let overall_loudness = self.send_loudness_db + self.receive_loudness_db;
        let x = overall_loudness + 0.2 * (64.0 + noise - self.receive_loudness_db);
        let too_loud = 20.0 * ((1.0 + (x / 8.0).powi(8)).powf(1.0 / 8.0) - x / 8.0);

        let q = 37.0 - 15.0 * self.quantisation_units.log10();
        let g = 1.07 + 0.258 * q + 0.0602 * q * q;
        let y = (signal_to_noise - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0;
        let z = 46.0 / 30.0 - g / 40.0;
        let quantisation = 15.0 * (1.0 + 10_f64.powf(y) + 10_f64.powf(z)).log10();

        too_loud + self.sidetone() + quantisation
    }

    /// Computes Ist: sidetone that is not optimal, including the early talker echo.
    fn sidetone(&self) -> f64 {
        let echo = (-self.echo_delay_ms / 4.0).exp() * 10_f64.powf(-self.talker_echo_db / 10.0);
        let s = -10.0 * (10_f64.powf(-self.sidetone_db / 10.0) + echo).log10();
        12.0 * (1.0 + ((s - 13.0) / 6.0).powi(8)).powf(1.0 / 8.0)
            - 28.0 * (1.0 + ((s + 1.0) / 19.4).powi(35)).powf(1.0 / 35.0)
            - 13.0 * (1.0 + ((s - 3.0) / 33.0).powi(13)).powf(1.0 / 13.0)
            + 29.0
    }

    /// Computes Idte: talker echo (G.107 §7.4).
    fn talker_echo(&self, noise: f64) -> f64 {
        let t = self.echo_delay_ms;
        if t < 1.0 {
            return 0.0;
        }
        let mut rating = self.talker_echo_db
            - 40.0 * ((1.0 + t / 10.0) / (1.0 + t / 150.0)).log10()
            + 6.0 * (-0.3 * t * t).exp();
        if self.sidetone_db < 9.0 {
            rating += self.sidetone() / 2.0; // strong sidetone masks the echo
        }
        let echo_ratio = 80.0 + 2.5 * (rating - 14.0);
        let noise_ratio = -1.5 * (noise - self.receive_loudness_db);
        let half = (noise_ratio - echo_ratio) / 2.0;
        let impairment = (half + (half * half + 100.0).sqrt() - 1.0) * (1.0 - (-t).exp());
        if self.sidetone_db > 20.0 {
            impairment.hypot(self.sidetone())
        } else {
            impairment
        }
    }

    /// Computes Idle: listener echo (G.107 §7.4).
    fn listener_echo(&self, signal_to_noise: f64) -> f64 {
        let ratio = 10.5 * (self.echo_path_loss_db + 7.0) * (self.round_trip_ms + 1.0).powf(-0.25);
        let half = (signal_to_noise - ratio) / 2.0;
        half + (half * half + 169.0).sqrt()
    }

    /// Computes Idd: pure delay, which impairs conversation beyond 100 ms (G.107 §7.4).
    fn absolute_delay(&self) -> f64 {
        if self.absolute_delay_ms <= 100.0 {
            return 0.0;
        }
        let x = (self.absolute_delay_ms / 100.0).log2();
        let sixth_root = |x: f64| (1.0 + x.powi(6)).powf(1.0 / 6.0);
        25.0 * (sixth_root(x) - 3.0 * sixth_root(x / 3.0) + 2.0)
    }

    /// Computes Ie,eff: codec and packet loss (G.107 §7.5).
    fn effective_equipment_impairment(&self) -> f64 {
        let ie = self.equipment_impairment;
        // The recommendation defines the burst ratio from 1 (random) to 8.
        let burst_ratio = self.burst_ratio.clamp(1.0, 8.0);
        let loss = self.loss_percent;
        ie + (95.0 - ie) * loss / (loss / burst_ratio + self.loss_robustness)
    }
}

/// The result of the model, with the terms that make it up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rating {
    /// Ro: the basic signal-to-noise ratio.
    pub signal_to_noise: f64,
    /// Is: impairments that come together with the voice.
    pub simultaneous: f64,
    /// Idte: talker echo.
    pub talker_echo: f64,
    /// Idle: listener echo.
    pub listener_echo: f64,
    /// Idd: pure delay.
    pub absolute_delay: f64,
    /// Ie,eff: codec and packet loss.
    pub equipment: f64,
    /// R: the rating, 0 (worst) to 100; 93.2 with all defaults.
    pub r: f64,
}

impl Rating {
    /// Returns the mean opinion score that users would give in a conversation.
    #[must_use]
    pub fn mos(&self) -> f64 {
        mos(self.r)
    }
}

/// Returns the mean opinion score (MOS-CQE) for a rating, 1 to 4.5 (G.107 Annex B).
#[must_use]
pub fn mos(r: f64) -> f64 {
    if r >= 100.0 {
        return 4.5;
    }
    // The polynomial dips below 1 for ratings up to 6.5; the scale does not.
    let r = r.max(0.0);
    (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0)
}

/// Returns the burst ratio of a call: the mean length of the observed runs of missed packets over the mean length 1/(1
/// − p) of independent losses of the same rate (G.107 §7.5).
///
/// The result is 1 if nothing was missed or nothing arrived: then there is no run to compare.
#[must_use]
pub fn burst_ratio(missed: impl IntoIterator<Item = bool>) -> f64 {
    let mut runs = Runs::default();
    missed.into_iter().for_each(|missed| runs.push(missed));
    runs.burst_ratio()
}

/// Describes how users perceive R. [Papadimitriou06 Table IV]
#[must_use]
pub fn satisfaction(r: f64) -> &'static str {
    match r {
        r if r >= 90.0 => "very satisfied",
        r if r >= 80.0 => "satisfied",
        r if r >= 70.0 => "some users satisfied",
        r if r >= 60.0 => "most users dissatisfied",
        r if r >= 50.0 => "almost all users dissatisfied",
        _ => "not recommended",
    }
}

/// Describes the perceived quality by end-to-end delay. [Papadimitriou06 Table II]
#[must_use]
pub fn delay_class(delay_us: u64) -> &'static str {
    match delay_us {
        ..150_000 => "not noticeable",
        // Choice: the table begins its last class "over 250-300 ms"; this code uses the strict end.
        150_000..=250_000 => "acceptable, slight speech impairments",
        _ => "unacceptable, conversation is inefficient",
    }
}

/// Describes the perceived quality by delay variation. [Papadimitriou06 Table III]
#[must_use]
pub fn jitter_class(jitter_us: u64) -> &'static str {
    match jitter_us {
        ..40_000 => "not noticeable",
        40_000..=75_000 => "acceptable, minor impairments",
        _ => "unacceptable, too much jitter",
    }
}

fn add_levels_db(levels: &[f64]) -> f64 {
    let power: f64 = levels.iter().map(|db| 10_f64.powf(db / 10.0)).sum();
    10.0 * power.log10()
}

#[cfg(test)]
mod tests;
