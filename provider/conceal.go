package provider

import (
	"bytes"
	"net/http"
	"strings"
)

// leastKey is how many bytes a key has at least that is kept from what a server says.
// Shorter ones are placeholders, such as the "ollama" of a local server, and words of
// answers too.
const leastKey = 16

// concealed stands in a response for the key that was sent.
const concealed = "[API key]"

// conceal takes the key out of what a response said, which is kept, shown and logged:
// servers and proxies repeat headers of the request in their errors.
func (x *exchange) conceal() {
	if len(x.key) < leastKey {
		return
	}
	for _, text := range spellings(x.key) {
		x.body = withoutKey(x.body, text)
		x.refusal = withoutKey(x.refusal, text)
	}
	concealIn(x.response.Header, x.key)
}

// concealIn takes the key out of a response's headers.
func concealIn(h http.Header, key string) {
	if len(key) < leastKey {
		return
	}
	for _, values := range h {
		for i, v := range values {
			values[i] = strings.ReplaceAll(v, key, concealed)
		}
	}
}

// spellings are the forms that a key takes in JSON: a "/" may have a backslash, and
// encoders that write for HTML spell some characters by number.
func spellings(key string) []string {
	all := []string{key}
	for _, r := range []*strings.Replacer{
		strings.NewReplacer(`\`, `\\`, `"`, `\"`),
		strings.NewReplacer(`\`, `\\`, `"`, `\"`, `/`, `\/`),
		strings.NewReplacer(`\`, `\\`, `"`, `\"`, `<`, `\u003c`, `>`, `\u003e`, `&`, `\u0026`),
	} {
		if s := r.Replace(key); s != key {
			all = append(all, s)
		}
	}
	return all
}

// withoutKey leaves what does not hold the key as it is.
func withoutKey(text []byte, key string) []byte {
	if !bytes.Contains(text, []byte(key)) {
		return text
	}
	return bytes.ReplaceAll(text, []byte(key), []byte(concealed))
}
