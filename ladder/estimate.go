package ladder

import (
	"encoding/json"

	"nightshift/config"
	"nightshift/provider"
)

// UsualAnswer is how many tokens an answer is thought to have where the request
// does not bound it: the answer of the typical call that goals reckon with.
const UsualAnswer = 500

// maxEstimate bounds an estimate, in tokens: no model takes as much, and sums
// over a million lines stay far from an overflow.
const maxEstimate = 100_000_000

// maxChoices bounds the choices of an estimate; APIs allow up to 128.
const maxChoices = 1000

// Size is about how large a request is; see [SizeOf].
type Size struct{ size *size }

// SizeOf measures the body of a request to an endpoint, which need not be one:
// then it is empty.
func SizeOf(endpoint string, body json.RawMessage) Size { return Size{measure(endpoint, body)} }

// SizeOfTokens is the size of a chat of which nothing but the tokens is known, as
// in a call log: those that it holds, and those that its answer may have.
func SizeOfTokens(input, output int64) Size {
	var s struct { // one piece of memory
		size
		message [1]int
	}
	s.message[0] = int(min(max(input, 0), maxEstimate))
	s.size = size{endpoint: provider.ChatCompletions, messages: s.message[:], answer: int(max(output, 1)), n: 1}
	return Size{&s.size}
}

// Tokens is about how many tokens the request takes as a rung sends it, before it is
// sent.
//
// The input is counted as everywhere here: a token for four bytes of ASCII, for
// two letters of another alphabet, for each ideograph; no tokenizer's count, and
// images count nothing. The output is what the request allows, max_completion_tokens,
// max_tokens or max_output_tokens, since that is what providers reserve; a request
// that allows any length is thought to get [UsualAnswer], within the context that
// the input leaves. Each of n choices counts, for each prompt of a completion;
// embeddings have no output. So it is rather too much than too little, and what is
// reserved by it is corrected by the usage that comes back.
func (z Size) Tokens(r config.Rung, m config.Model) (input, output int64) {
	return z.size.estimate(&r, &m)
}

// TooLarge says that the request is clearly too large for a model's context as
// a rung sends it, so that an attempt passes the rung over.
func (z Size) TooLarge(r config.Rung, m config.Model) bool { return z.size.tooLarge(&r, &m) }

func (s *size) estimate(r *config.Rung, m *config.Model) (input, output int64) {
	input = int64(s.prompt())
	if s.endpoint == provider.Embeddings {
		return min(input, maxEstimate), 0
	}
	output = int64(s.answerTokens(r))
	if output == 0 {
		output = UsualAnswer
		if m.Context > 0 {
			output = max(1, min(output, int64(m.Context)-input))
		}
	}
	output = min(output, maxEstimate) * int64(s.choices(r))
	return min(input, maxEstimate), min(output, maxEstimate)
}

// choices is how many answers a rung asks for at once.
func (s *size) choices(r *config.Rung) int {
	n := s.n
	if v, ok := r.Set["n"]; ok {
		text, _ := json.Marshal(v)
		n = choicesOf(text)
	}
	return min(max(n, 1)*max(len(s.inputs), 1), maxChoices)
}

// EstimatedCost is what so many tokens cost on a rung; 0 where neither it nor
// its model has a price.
func EstimatedCost(r config.Rung, m config.Model, input, output int64) provider.USD {
	p := m.Price
	if r.Price != nil {
		p = r.Price
	}
	return cost(p, provider.Usage{InputTokens: input, OutputTokens: output})
}
