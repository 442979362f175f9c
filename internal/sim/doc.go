// Package sim is a model provider that can be told how to fail: a real HTTP
// server that speaks OpenAI's chat completions, completions, embeddings and
// responses and, at /v1/messages, Anthropic's Messages API, streamed and plain,
// for tests and rehearsals.
//
// A [Script] gives each model its latency, its hidden rate limit and its faults
// by time, by call number or by chance. Chance comes from the script's seed and
// the call's number, so the same calls in the same order meet the same faults.
// An answer echoes the last user message, so that no answer can cross over to
// another line unseen. Every call is on a log, as the provider saw it.
//
// The paths under /sim are for tests in other processes: GET /sim/calls and
// /sim/counts, POST /sim/reset and /sim/faults, DELETE /sim/faults.
package sim
