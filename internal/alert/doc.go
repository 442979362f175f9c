// Package alert tells people what they should know of while they sleep: a breaker
// that does not close, a guard that tripped, a batch that will be late, one that
// is done.
//
// What holds now is a [Sighting]. The keeper looks for them every ten seconds and
// makes occurrences of them (step.go, a pure function): one begins when a
// condition has held for as long as its [Rule] says, and is over when it has not
// held for a while. Each is told once, and once more when it is over.
//
//	    seen            held for Rule.After        gone for Rule.Quiet
//	───────────▶ waits ────────────────────▶ told ────────────────────▶ over
//	               │   gone for Rule.Quiet     one message               one message
//	               └─────────▶ forgotten
//
// Both what is known and the messages to send stand in Redis, and change in one
// script that refuses a keeper of an earlier epoch: a keeper that takes over goes
// on where the last one stood. A message stays until its receiver took it or a
// day has passed; of those to one receiver only the oldest is tried. A keeper
// that dies between an answer and its note of it leaves a message to be sent
// again, by the same ID, a minute later: at least once, not exactly once.
//
// What goes wrong with a receiver holds up nobody else and no line; it is logged,
// and counted in nightshift_notifications_total.
package alert
