// Package tasks is the queue side: it alone knows asynq.
//
// A task carries a reference to a line ([Encode], [Decode]); the line itself,
// its progress and its record live in package batch. The [Handler] runs one
// attempt of a line through its ladder and turns the outcome into what the
// queue understands: nil, a deferral, or a failure. The [Worker] runs one asynq
// server a queue with slots of its own, and the [Keeper], one in the fleet by a
// lease, releases lines, gives texts to those whose deadline is near, expires
// them, wakes them and brings back what vanished.
//
// asynq's retry budget is slack; the real one is in the line's progress. No
// handler of ours ever lets asynq archive a task.
package tasks
