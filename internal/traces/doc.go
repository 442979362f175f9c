// Package traces exports what attempts did as traces of OpenTelemetry. It is the
// only package that knows of it.
//
// One trace is one attempt: a root span, a span for each call with the conventions
// for generative AI, and events for what was in the attempt's way. Attempts of a line
// are hours apart and one trace of them all would be of no use, so each links to
// the submission of its batch and to the attempt before:
//
//	submission ◀──── attempt 1 ◀──── attempt 2 ◀──── attempt 3
//	     ▲                                │               │
//	     └────────────────────────────────┴───────────────┘
//
// What they link to is a traceparent of 55 bytes, in the description of the batch
// and in the line's progress.
//
// While an attempt runs nothing is made but notes. At its end it is decided
// whether it is kept: by the sampler of the environment, and always where it
// failed or was answered below its first choice. Only then spans are made, with
// the times of the notes; so what is dropped costs next to nothing, and an
// attempt holds no more than maxCalls notes.
//
// The half of a trace's ID that ratios go by is that of its line, so that a ratio
// keeps or drops all attempts of a line.
//
// No prompt, answer or key is in a span. What a provider wrote is only there where
// it looks like a name.
package traces
