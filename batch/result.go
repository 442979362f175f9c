package batch

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"nightshift/internal/jsonscan"
	"nightshift/provider"
)

const resultIDPrefix = "batch_req_"

// NewResultID returns a new ID for a result, in the shape of OpenAI's.
func NewResultID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	return resultIDPrefix + hex.EncodeToString(b[:])
}

// Encode returns the result as one output line without a newline. A body that
// is not JSON, e.g. a provider's error page, or nested too deep for the readers
// of the results, becomes a JSON string.
func (r Result) Encode() ([]byte, error) {
	if r.Response != nil {
		resp := *r.Response
		resp.Body = jsonOrString(resp.Body)
		r.Response = &resp
	}
	if r.Nightshift.Attempts == nil {
		r.Nightshift.Attempts = []provider.Call{}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("encode result %s: %w", r.CustomID, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

func jsonOrString(b json.RawMessage) json.RawMessage {
	if len(b) == 0 {
		return nil // null
	}
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	if jsonscan.Valid(b, provider.MaxNesting) {
		return b
	}
	s, err := json.Marshal(string(b))
	if err != nil {
		return nil // a string always encodes
	}
	return s
}
