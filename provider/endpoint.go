package provider

import (
	"slices"
	"strings"
)

// The endpoints that a request may have.
const (
	ChatCompletions = "/v1/chat/completions"
	Completions     = "/v1/completions"
	Embeddings      = "/v1/embeddings"
	Responses       = "/v1/responses"
)

// Endpoints are all of them.
func Endpoints() []string { return []string{ChatCompletions, Completions, Embeddings, Responses} }

// EndpointOf returns the endpoint that a url names, and whether it is one.
// Azure's files leave the version out.
func EndpointOf(url string) (string, bool) {
	endpoint := url
	if !strings.HasPrefix(endpoint, "/v1/") {
		endpoint = "/v1" + endpoint
	}
	return endpoint, slices.Contains(Endpoints(), endpoint)
}

// Serves says whether the adapter of an API, by its name in the configuration,
// has an endpoint. Whether a server of that API has it shows at the first call.
func Serves(api, endpoint string) bool {
	return api != "anthropic" || endpoint == ChatCompletions
}

// HasText says whether the answers of an endpoint are texts, which can be held
// to a schema and which a text can stand in for.
func HasText(endpoint string) bool { return endpoint != Embeddings }

// endpointPath returns an endpoint as a reference to a base URL that already
// ends in the version, as the SDKs of the family have it.
func endpointPath(endpoint string) string {
	return strings.TrimPrefix(strings.TrimPrefix(endpoint, "/v1"), "/")
}

// familyOf is how the responses of an endpoint are read.
func familyOf(p *parcel) family {
	switch p.endpoint {
	case Completions:
		return family{(*exchange).readTextEvents, readText, refuseElsewhere}
	case Embeddings:
		return family{nil, embeddings(inputs(p.field("input"))).read, refuseElsewhere}
	case Responses:
		return family{(*exchange).readResponseEvents, readResponseObject, refuseElsewhere}
	}
	return family{(*exchange).readEvents, readResponse, refuse}
}
