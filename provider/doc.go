// Package provider calls the APIs of model providers, one adapter an API
// family, and turns every response into an [Answer] or a classified [*Error].
//
// An adapter makes exactly one HTTP request a call: the SDKs' own retries are
// off, because a retry is a purchase that the ladder decides on. Requests and
// answers have the shape of OpenAI's chat completions. With [OpenAI] the body of
// a line goes out byte for byte as it came in, but for the model's name and what
// a rung sets or drops; [Anthropic] translates it, and refuses by its name what
// it cannot carry over.
//
// What an outcome means is decided in one place, the classification table of
// the API family (openai_classify.go, anthropic_classify.go): by status, then by the provider's error
// type and code, then by the body. A new error code of a provider is a new row
// there and a new body in testdata.
//
// Adapters are safe for concurrent use.
package provider
