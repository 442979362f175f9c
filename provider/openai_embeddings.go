package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// embeddings is how many of them a request asks for.
type embeddings int

// embedded is what the adapter reads of a list of embeddings.
type embedded struct {
	Error json.RawMessage `json:"error"`
	Data  []struct {
		Embedding json.RawMessage `json:"embedding"` // numbers, or a base64 string
	} `json:"data"`
	Usage json.RawMessage `json:"usage"`
}

// read makes an answer or a classified error of a response that came whole. An
// answer has an embedding for every input.
func (want embeddings) read(status int, h http.Header, body []byte, now time.Time) (Answer, *Error) {
	if status < 200 || status > 299 {
		return Answer{}, refuseElsewhere(status, h, body, Usage{}, now)
	}
	var e embedded
	if err := readJSON(body, &e); err != nil {
		return Answer{}, unusable(status, h, body, Usage{}, err.Error())
	}
	usage := parseUsage(e.Usage)
	if !isEmpty(e.Error) {
		return Answer{}, refuseElsewhere(status, h, body, usage, now)
	}
	for i, d := range e.Data {
		if isEmpty(d.Embedding) || !slices.Contains([]byte(`["`), d.Embedding[0]) {
			return Answer{}, unusable(status, h, body, usage, fmt.Sprintf("embedding %d of the answer is empty", i))
		}
	}
	if len(e.Data) < int(want) {
		return Answer{}, unusable(status, h, body, usage, fmt.Sprintf("the answer has %d embeddings for %d inputs", len(e.Data), want))
	}
	return Answer{StatusCode: status, RequestID: requestID(h), Body: body, Usage: usage}, nil
}
