package batch

import (
	"fmt"
	"strings"

	"nightshift/internal/jsonscan"
	"nightshift/provider"
)

// parseURL reads the endpoint of a line.
func parseURL(f field) (string, error) {
	url, err := parseString(f)
	if err != nil {
		return "", err
	}
	endpoint, ok := provider.EndpointOf(url)
	if !ok {
		return "", &fieldError{f.name, fmt.Sprintf("%q is not supported; these are: %s", url, strings.Join(provider.Endpoints(), ", "))}
	}
	return endpoint, nil
}

// needs is what the body of an endpoint must have.
type needs struct {
	field string
	what  string                  // the field must be
	is    func(value []byte) bool // whether it is that
	// respond: the body may name a prompt that is kept at the provider in place of
	// the field, and may not ask for a response in the background.
	respond bool
}

// endpoints are those that lines may have.
var endpoints = map[string]needs{
	provider.ChatCompletions: {"messages", "an array with at least one message", isList, false},
	provider.Completions:     {"prompt", inputWhat, isInput, false},
	provider.Embeddings:      {"input", inputWhat, isInput, false},
	provider.Responses:       {"input", "a text or an array with at least one item", isItems, true},
}

const inputWhat = "a text or an array of texts or tokens that is not empty"

// check looks at one field of a body; found says that it is what is needed.
func (n needs) check(f field) (found bool, err error) {
	asked := string(f.value) != "false" && string(f.value) != "null"
	switch {
	case f.name == n.field:
		if !n.is(f.value) {
			return false, &fieldError{"body." + f.name, "it must be " + n.what}
		}
		return true, nil
	case f.name == "stream" && asked:
		return false, &fieldError{"body.stream", "answers of a batch are not streamed; leave it out"}
	case f.name == "background" && n.respond && asked:
		return false, &fieldError{"body.background", "answers of a batch are waited for; leave it out"}
	}
	return f.name == "prompt" && n.respond && f.value[0] == '{', nil
}

func isList(v []byte) bool { return v[0] == '[' && v[jsonscan.Space(v, 1)] != ']' }

func isItems(v []byte) bool { return v[0] == '"' || isList(v) }

// isInput is isItems whose first element is a text, a token or a list of tokens.
func isInput(v []byte) bool {
	if !isItems(v) {
		return false
	}
	if v[0] == '"' {
		return true
	}
	return strings.IndexByte(`"[-0123456789`, v[jsonscan.Space(v, 1)]) >= 0
}
