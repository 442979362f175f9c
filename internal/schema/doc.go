// Package schema holds JSON schemas that answers must satisfy: compiled once,
// checked often, and safe with schemas and answers of anybody's making.
//
//	text ─ Compile ─▶ Schema ─ Check(answer) ─▶ nil, or a *Mismatch
//
// Drafts 4 to 2020-12 are known, told by $schema; without one it is 2020-12. A
// schema stands alone: a $ref reaches what is in the same text and nothing else,
// neither a file nor the network. Patterns are Go's regular expressions, which
// have no look-around. Formats are annotations since draft 2019-09 and checked
// before, as the drafts say.
//
// # Bounds
//
// Checking can cost more than any worker has: each alternative of a recursive
// schema doubles the work at each level of an answer. So every check has a budget
// of steps that grows with the answer, counted and not timed, so that the same
// answer never passes on one machine and fails on another. What is larger,
// deeper or longer than the constants in bounds.go say does not compile, or is a
// mismatch. Every part of a schema counts its steps, but only those that the
// library's exported fields reach: $dynamicRef and $recursiveRef go past them and
// are refused.
package schema
