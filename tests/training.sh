#!/bin/sh
# The training examples: they learn, and their losses are the same bits on a second run, with two threads and
# from the interpreter. tests/long/training.sh has more seeds and steps.
B=${BUILD:-build}/training
mkdir -p "$B"
. tests/shell/checks.sh
. tests/shell/training.sh

curve digits_mlp a --steps=300
right digits_mlp a 0.88
curve digits_mlp again --steps=300
curve digits_mlp threads --steps=300 --threads=2
same digits_mlp a again threads
curve digits_mlp short --steps=20
curve digits_mlp interpreted --steps=20 --interpret=1
same digits_mlp short interpreted

# dropout and shifts: random numbers in the step
curve digits_cnn a --shift=1 --steps=120
right digits_cnn a 0.88
curve digits_cnn again --shift=1 --steps=120
curve digits_cnn threads --shift=1 --steps=120 --threads=2
same digits_cnn a again threads
curve digits_cnn short --shift=1 --steps=3
curve digits_cnn interpreted --shift=1 --steps=3 --interpret=1
same digits_cnn short interpreted

curve charlm a --steps=24 --batch=4 --sample=40
falls charlm a 3.7
curve charlm threads --steps=24 --batch=4 --sample=40 --threads=2
same charlm a threads
curve charlm short --steps=2 --batch=4 --sample=2
curve charlm interpreted --steps=2 --batch=4 --sample=2 --interpret=1
same charlm short interpreted
closing
