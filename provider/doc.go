// Package provider calls the APIs of model providers, one adapter an API
// family, and turns every response into an [Answer] or a classified [*Error].
//
// An adapter makes one purchase a call: the SDKs' own retries are off, because a
// retry is a purchase that the ladder decides on. Only where a server refuses how
// the request is sent, which buys nothing, does [OpenAI] send it another way.
//
// Requests and answers have the shape of OpenAI's chat completions. With [OpenAI]
// the body of a line goes out byte for byte as it came in, but for the model's
// name, what a rung sets or drops, and the fields that ask for a stream;
// [Anthropic] translates it, and refuses by its name what it cannot carry over.
//
// Calls are streamed where their silence is limited ([Request]), so that a hang
// is told from a long answer. Streamed or plain, the answer is the same:
//
//	response ─▶ events ─▶ assembly ─▶ readResponse ─▶ Answer or *Error
//	   │        (SSE)     (one body)        ▲
//	   └─ not a stream ─────────────────────┘
//
// What an outcome means is decided in one place, the classification table of
// the API family (openai_classify.go, anthropic_classify.go): by status, then by the provider's error
// type and code, then by the body. A new error code of a provider is a new row
// there and a new body in testdata.
//
// Adapters are safe for concurrent use.
package provider
