// Package convoy sends what different lines ask of Redis together: group commit
// for scripts.
//
//	line a ──▶ sent at once ────────────▶ Redis ──▶ a
//	line b ──▶ waits, since a is under way ┐
//	line c ──▶ waits ──────────────────────┴─▶ one pipeline ──▶ b, c
//
// While one pipeline of a [Convoy] is under way, what others ask collects; then
// it goes in one pipeline, in which the calls of the same script, with the same
// keys and shared arguments, are one EVALSHA. Its script takes them one after
// another and reads and writes once what they have in common. So a line that is
// alone never waits for company, and a crowd costs Redis little more than one.
//
// A convoy decides nothing and repeats nothing but what Redis has not run: a
// script that it did not know, and the calls of a crowd whose script failed, each
// alone then, so that one cannot spoil the others' answers. Scripts must therefore
// bear to be repeated, which those that can lose a reply do anyway.
package convoy
