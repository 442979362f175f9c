// Package batch keeps batches: it reads and writes their files, holds the
// backlog of requests and the life of every line in Redis, and answers how far
// a batch is.
//
// [Pack] checks what a [Reader] reads and keeps it, compressed, until the whole file
// is known to be right; [Redis.Submit] writes it. Everything of a batch lives under one hash
// tag, {b:<batch>}, so that each step of a line's life is one script (lua/*.lua;
// lua/lib.lua lists the keys and what they hold):
//
//	backlog ─release─▶ out ─begin─▶ leased ─suspend─▶ out (waits until …)
//	   │                │             │ finish
//	   └──────end───────┴──────────▶ record (once, for good)
//
// Invariants, at every moment:
//   - succeeded + failed + expired + cancelled + outstanding = total
//   - a line has at most one record, and the first writer wins
//   - the batch's cost holds every paid call once, also of a loser; wasted is
//     what neither a record nor the progress of a line under way shows
//
// What goes wrong, and what then:
//   - A reply is lost and the message repeated: every script knows what it did
//     by the attempt's token, and does nothing twice.
//   - A worker dies: its lease runs out and the next begin takes the line with
//     the progress of the last checkpoint. That is a crash; after the fifth the
//     line ends as task_lost.
//   - A worker stalls and comes back: its answer is taken while there is no
//     record; anything else it says only adds to the waste.
//   - A submission is killed: the batch stays invisible to the keeper, and the
//     same submission goes on with it.
//   - A keeper is replaced: its epoch is older, and its scripts are refused.
//
// How the cost stays exact: an attempt always sends the whole progress of its
// line. The batch remembers for each attempt up to which call and amount it has
// booked (a mark), so only the rest is added, whoever holds the lease.
//
// What to release is a pure function, [Pick].
package batch
