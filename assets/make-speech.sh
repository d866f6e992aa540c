#!/bin/sh
# Makes speech.wav: 36 s of two synthetic voices in conversation, 8 kHz, mono, 16 bits.
#
# Needs espeak-ng (1.51 made the shipped file) and sox (14.4.2). The same versions give the same
# file, bit for bit: sox runs without dither (-D) and with its fixed noise seed (-R).
#
#   ./make-speech.sh [OUT.wav]
#
# Layout: three segments of 12 s, the interval that is scored. Each holds four turns of two
# speakers, begins and ends with a pause, and no sentence crosses a border.
#
#   0.4 s | A | 0.4 s | B | 0.4 s | A | 0.4 s | B | pause up to 12 s
#
# Why a noise floor: espeak-ng's pauses are digital silence. G.711's smallest steps then stand out
# against nothing, and PESQ marks even a call without loss down to 3.8. Real rooms are not silent:
# white noise at -60 dBov restores the scale (4.3 for the loss-free codec).
# Why the high-pass: a telephone handset sends nothing below 250 Hz either.
set -eu

out=${1:-$(dirname "$0")/speech.wav}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

turn=0
# say VOICE TEXT: the next turn, without the pauses around it.
say() {
    turn=$((turn + 1))
    name=$(printf '%s/turn%02d.wav' "$work" "$turn")
    espeak-ng -v "$1" -s 165 -w "$work/raw.wav" "$2"
    sox -D -R "$work/raw.wav" -r 8000 -c 1 "$name" \
        highpass 250 gain -n -3 \
        silence 1 0.01 0.3% reverse silence 1 0.01 0.3% reverse \
        pad 0.4 0
}

a=en-us+m5
b=en-us+f3

say $a "Has the early ferry left the harbour?"
say $b "Yes, the next one sails at a quarter past eight."
say $a "Then we should measure these boxes."
say $b "Fine. The big yellow one weighs more than both of us."

say $a "Did your brother fix that old radio?"
say $b "He tried, but the dials jump when a gull flies over."
say $a "Maybe a longer wire would help."
say $b "Please bring one, and some fresh ginger cake."

say $a "What shall we cook on the island?"
say $b "Soup with beans, bread, and whatever fish they catch."
say $a "They usually only catch a cold."
say $b "Sure. I will pack two jars of honey, just in case."

# Four turns to a segment, cut or filled up to exactly 12 s.
for segment in 0 1 2; do
    first=$((4 * segment + 1))
    # shellcheck disable=SC2046
    sox -D -R $(seq -f "$work/turn%02.0f.wav" $first $((first + 3))) "$work/turns.wav"
    if [ "$(soxi -s "$work/turns.wav")" -gt 93600 ]; then
        echo "segment $segment: $(soxi -D "$work/turns.wav") s of speech, at most 11.7 fit" >&2
        exit 1
    fi
    sox -D -R "$work/turns.wav" "$work/segment$segment.wav" pad 0 "$((96000 - $(soxi -s "$work/turns.wav")))s"
done
sox -D -R "$work"/segment[012].wav "$work/speech.wav"

# White noise of -60 dBov rms: sox's full-scale white noise has an rms of -12.8 dB.
sox -D -R -n -r 8000 -c 1 -b 16 "$work/noise.wav" synth 36 whitenoise vol 0.00435
# The loudest sample of the sum at -3 dBFS.
sox -D -R -m -v 1 "$work/speech.wav" -v 1 "$work/noise.wav" -b 16 "$work/mixed.wav"
sox -D -R "$work/mixed.wav" -b 16 "$out" gain -n -3
