package provider

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// anthropicRules is the one place that says what a refusal of the Anthropic
// family means; see rules for how a table is read. A new code or wording is a
// word in a row here and a body in testdata/anthropic.
//
// The API's own codes (error.details.error_code) are stable and come first. Of
// its many 400s most have none, so their wordings follow.
var anthropicRules = []rule{
	// A prompt that does not fit.
	{
		kind: ContextExceeded, why: "the request is too long for the model", statuses: []int{400, 413, 422},
		words: []string{
			"prompt is too long", "exceed context limit", "context window", "maximum context length", "input is too long",
		},
	},
	{ // a 429 in name alone: waiting cannot help
		kind: ContextExceeded, why: "the request is too long for this account", statuses: []int{400, 429},
		words: []string{"for long context requests", "long context beta"},
	},

	// A filter.
	{
		kind: ContentFiltered, why: "refused by a content filter", statuses: []int{400, 403},
		words: []string{"content filtering policy", "violate our usage policy", "violates our usage policy"},
	},

	// Money. Before the 429s: a limit of money does not pass with the minute.
	{
		kind: QuotaExhausted, scope: ScopeParent, why: "credit, quota or a spend limit is used up",
		names: []string{
			"billing_error", "contract_spend_limit_reached", "enforced_spend_limit_reached",
			"linked_organization_spend_limit_reached", "linked_organization_billing_unavailable",
			"user_profile_billing_not_authorized",
		},
	},
	{kind: QuotaExhausted, scope: ScopeParent, why: "payment required", statuses: []int{402}},
	{
		kind: QuotaExhausted, scope: ScopeParent, why: "credit, quota or a spend limit is used up",
		statuses: []int{400, 403, 429},
		words: []string{
			"credit balance is too low", "api usage limits", "spend limit", "spending limit", "out of extra usage",
		},
	},

	// An account that is closed for another reason.
	{
		kind: Misconfigured, scope: ScopeParent, why: "the provider refuses the key or the account",
		names: []string{
			"authentication_error", "permission_error", "organization_on_hold", "cmek_key_disabled", "cmek_key_network_blocked",
		},
	},
	{
		kind: Misconfigured, scope: ScopeParent, why: "the provider refuses the key or the account", statuses: []int{400},
		words: []string{"organization has been disabled", "invalid x-api-key", "anthropic-workspace-id"},
	},

	// A field that this model does not take.
	{
		kind: InvalidRequest, parameter: true, why: "the model does not take a parameter of the request",
		statuses: []int{400, 422},
		words: []string{
			"extra inputs are not permitted", "is deprecated for this model", "not supported for this model",
			"not supported by this model", "not supported on this model", "not supported with this model",
			"model does not support", "cannot both be specified", "maximum allowed number of output tokens",
			"output_config", "pre-fill", "schema is too complex",
		},
	},

	// A model that is not there; 404 says so by its status.
	{
		kind: Misconfigured, scope: ScopeModel, why: "the model is unknown to the provider or closed to this key",
		statuses: []int{400},
		words:    []string{"model … not found", "model … does not exist", "model … retired", "invalid model", "unknown model"},
	},

	// A limit that passes.
	{kind: RateLimited, why: "rate limit", names: []string{"rate_limit_error", "ramp_limit_exceeded"}},
	{kind: RateLimited, why: "rate limit", statuses: []int{429}},

	// The status alone.
	{kind: Misconfigured, scope: ScopeParent, why: "the provider refuses the key or the account", statuses: []int{401, 403, 407}},
	{kind: Misconfigured, scope: ScopeModel, why: "there is no such endpoint or model", statuses: []int{404, 405, 410}},
	{kind: Unavailable, why: "the provider could not take the request now", statuses: []int{408, 409, 421, 423, 424, 425, 499}},
	{kind: Unavailable, why: "a page in place of the provider's answer", statuses: []int{400}, html: true},
	{kind: InvalidRequest, why: "the request is larger than the provider takes", statuses: []int{413}},
	{kind: InvalidRequest, why: "the provider refuses the request", statuses: clientErrors()},
	{kind: Unavailable, why: "a redirect, which is not followed", statuses: []int{301, 302, 303, 307, 308}},
	{kind: Unavailable, why: "the provider is overloaded", names: []string{"overloaded_error"}},
	{kind: Unavailable, why: "the provider failed"},
}

// errorStatuses are the statuses of the API's types of errors, for those that
// come within a 200: in a stream, or from a proxy.
var errorStatuses = map[string]int{
	"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
	"not_found_error": 404, "conflict_error": 409, "request_too_large": 413, "rate_limit_error": 429,
	"api_error": 500, "timeout_error": 504, "overloaded_error": 529,
}

// refuseMessage is the classified error of a response that says no.
func refuseMessage(status int, h http.Header, body []byte, u Usage, now time.Time) *Error {
	s, id := readAnthropicSignal(status, body)
	e := s.refuse(classify(anthropicRules, s), status, h, body, u, now)
	if e.RequestID == "" && len(id) <= 256 {
		e.RequestID = id
	}
	return e
}

// readAnthropicSignal reads a refusal's body, and the request's ID in it.
func readAnthropicSignal(status int, body []byte) (s signal, requestID string) {
	s = readSignal(status, body)
	var b struct {
		RequestID scalar `json:"request_id"`
		Error     struct {
			Details struct {
				Code scalar `json:"error_code"`
			} `json:"details"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &b) // what is odd about it is left out
	if code := b.Error.Details.Code.String(); code != "" {
		s.code = code
		s.names = append(s.names, strings.ToLower(code))
	}
	if known := errorStatuses[strings.ToLower(s.errType)]; known != 0 && status < 300 {
		s.status = known
	}
	s.param = cmp.Or(s.param, refusedField(s.text))
	return s, b.RequestID.String()
}

// refusedFields finds the field that a message names: at its beginning, before
// a colon, or in backticks.
var refusedFields = []*regexp.Regexp{
	regexp.MustCompile(`^\s*([a-z_]+)[a-z0-9_.\[\]]*: `),
	regexp.MustCompile("`([a-z_]+)[a-z0-9_.]*`"),
	regexp.MustCompile(`does not support (?:the )?([a-z]+)`),
}

// carriedFrom are the fields of a body by the names that the API has for what
// became of them.
var carriedFrom = map[string]string{
	"output_config": "response_format", "effort": "reasoning_effort", "adaptive": "thinking",
	"stop_sequences": "stop", "assistant": "messages", "system": "messages",
}

// refusedField is the field of a body that a message is about; "" where it
// names none. Other words in its place may be the request's.
func refusedField(text string) string {
	if strings.Contains(text, "output_config.effort") {
		return "reasoning_effort"
	}
	known := (&translation{}).fields()
	for _, r := range refusedFields {
		m := r.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		if field := cmp.Or(carriedFrom[m[1]], m[1]); known[field] != nil {
			return field
		}
	}
	return ""
}
