// Package batch keeps batches: it reads and writes their files, holds the
// backlog of requests and the life of every line in Redis, and answers how far
// a batch is.
//
// Everything of a batch lives under one hash tag, {b:<batch>}, so that each
// step of a line's life is one script (lua/*.lua):
//
//	backlog ─release─▶ out ─begin─▶ leased ─suspend─▶ out (waits until …)
//	                                  │ finish
//	                                  ▼
//	                                record (once, for good)
//
// Invariants, at every moment:
//   - succeeded + failed + expired + cancelled + outstanding = total
//   - a line has at most one record, and the first writer wins
//   - the batch's cost holds every paid call once, also of a loser (wasted)
package batch
