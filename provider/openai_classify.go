package provider

import (
	"slices"
	"strings"
)

// rule is a row of the table: which refusals it takes, and what they mean.
type rule struct {
	statuses []int    // any of these; none: every status
	html     bool     // the body must be HTML
	names    []string // any of these as the error's type or code, in lower case
	words    []string // or any of these in its message, in lower case; " … " stands for any text
	// Without names and words, the status alone decides.

	kind      Kind
	scope     Scope
	parameter bool   // it names a field that this model does not take
	url       bool   // this model or server does not have the endpoint; others may
	missing   bool   // likewise, or there is no such model
	tier      bool   // it concerns the service tier alone
	why       string // for people; never the provider's words
}

// Statuses that carry the wordings of several kinds.
var (
	refusals  = []int{400, 403, 404, 412, 413, 422}
	malformed = []int{400, 413, 422, 500} // 500: older llama.cpp, proxies of Bedrock
)

// rules is the one place that says what a refusal of the OpenAI family means.
// The first row that fits wins: codes before words, words before the status
// alone. A new code of a provider is a word in a row here and a body in
// testdata/openai.
//
// A response of 200 that holds an error goes through the table with the error's
// own numeric code as its status, where it has one.
var rules = []rule{
	// The provider's names for a prompt that does not fit.
	{
		kind: ContextExceeded, why: "the request is too long for the model",
		names: []string{
			"context_length_exceeded", "exceed_context_size_error", "string_above_max_length",
			"tokens_limit_reached", "context_window_exceeded", "contextwindowexceedederror", "3051",
		},
	},
	{
		kind: ContextExceeded, why: "the request is too long for the model", statuses: malformed,
		words: []string{
			"maximum context length", "maximum model length", "maximum input length", "context size",
			"context length of only", "context window", "context limit", "prompt is too long",
			"input is too long", "input token count", "tokens exceed the configured limit",
			"contextwindowexceedederror", "`inputs` tokens + `max_new_tokens`", "`inputs` must have less than",
			"exceeds the context length", "range of input length should be", "max_tokens must be at least 1, got -",
		},
	},
	{ // more tokens than a whole minute allows: waiting cannot help
		kind: ContextExceeded, why: "the request is too long for the token limit of this account", statuses: []int{413, 429},
		words: []string{"request too large for", "request body too large for"},
	},

	// A filter.
	{
		kind: ContentFiltered, why: "refused by a content filter",
		names: []string{
			"content_filter", "content_policy_violation", "content_filtered", "responsibleaipolicyviolation",
			"data_inspection_failed", "datainspectionfailed", "moderation_blocked", "contentpolicyviolationerror",
			"invalid_prompt", "image_content_policy_violation", moderated,
		},
	},
	{
		kind: ContentFiltered, why: "refused by a content filter", statuses: refusals,
		words: []string{
			"content management policy", "safety system", "potentially violating our usage policy",
			"flagged by moderation", "input was flagged", "requires moderation", "considered high risk",
			"inappropriate content", "contentpolicyviolationerror", "violates usage guidelines", "content exists risk",
			"unsafe or sensitive content", "to this content for safety reasons",
		},
	},

	// Money. Before the 429s: a quota that is used up does not pass.
	{
		kind: QuotaExhausted, scope: ScopeParent, why: "credit, quota or a spend limit is used up",
		names: []string{
			"insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded",
			"project_spend_limit_exceeded", "organization_usage_limit_exceeded", "enforced_spend_limit_reached",
			"spend_limit_exceeded", "billing_hard_limit_reached", "billing_not_active", "billing_error",
			"exceeded_current_quota_error", "insufficient_balance", "insufficient_credits", "budget_exceeded",
			"credit_limit", "arrearage", "blocked_api_access", "allocationquota.freetieronly",
		},
	},
	{kind: QuotaExhausted, scope: ScopeParent, why: "payment required", statuses: []int{402}},
	{
		kind: QuotaExhausted, scope: ScopeParent, why: "credit, quota or a spend limit is used up",
		statuses: []int{400, 403, 412, 429},
		words: []string{
			"credit balance is too low", "credits are depleted", "spending limit", "spend limit",
			"specified api usage limits", "insufficient balance", "insufficient credit", "out of credits",
			"purchase more credits", "have any credits", "budget has been exceeded", "billing hard limit",
			"key limit exceeded",
		},
	},
	{ // Google words a limit by the minute as the others do a used-up quota
		kind: RateLimited, why: "rate limit", statuses: []int{200, 429},
		names: []string{"resource_exhausted"},
	},
	{
		kind: QuotaExhausted, scope: ScopeParent, why: "credit, quota or a spend limit is used up",
		statuses: []int{403, 429},
		words:    []string{"check your plan and billing details", "check your billing details"},
	},

	// An answer that the provider itself found invalid, and tells of as a refusal.
	{
		kind: InvalidOutput, why: "the model's answer was no valid JSON or tool call", statuses: []int{400},
		names: []string{"json_validate_failed", "tool_use_failed"},
	},

	// A response that failed by what was asked.
	{
		kind: InvalidRequest, why: "the provider refuses the request",
		names: []string{
			"invalid_image", "invalid_image_format", "invalid_base64_image", "invalid_image_url", "invalid_image_mode",
			"image_too_large", "image_too_small", "image_parse_error", "image_file_too_large", "empty_image_file",
			"unsupported_image_media_type", "image_file_not_found", "failed_to_download_image",
		},
	},

	// A file that the request names and the provider has not: no fault of the model's.
	{
		kind: InvalidRequest, why: "the request names a file that is not there", statuses: []int{404},
		words: []string{"no such file"},
	},

	// An endpoint that this model or server does not have. The model may be well
	// at another one.
	{
		kind: InvalidRequest, url: true, why: "the model does not have this endpoint",
		names: []string{"operationnotsupported"},
	},
	{
		kind: InvalidRequest, url: true, why: "the model does not have this endpoint",
		statuses: []int{400, 403, 404, 422, 500, 501},
		words: []string{
			"not a chat model", "is a chat model and not", "supported in v1/", "supported in the v1/",
			"work with the specified model", "be used with the responses api", "to generate embeddings from this model",
			"not support embeddings", "not support the embeddings", "not support completions", "not support the completions",
			"not support chat", "not support the chat", "not support generate", "not support responses",
			"not support the responses", "only supports embeddings",
		},
	},

	// A field that this model does not take.
	{
		kind: InvalidRequest, parameter: true, why: "the model does not take a parameter of the request",
		names: []string{"unsupported_parameter", "unsupported_value", "unknown_parameter", "extra_forbidden"},
	},
	{
		kind: InvalidRequest, parameter: true, why: "the model does not take a parameter of the request",
		statuses: []int{400, 404, 422},
		words: []string{
			"unsupported parameter", "unsupported value", "unknown parameter", "unrecognized request argument",
			"extra inputs are not permitted", "not supported with this model", "not supported for this model",
			"not supported by this model", "does not support tools", "does not support … with this model",
			"no endpoints found that support",
		},
	},

	// A model that is not there.
	{
		kind: Misconfigured, scope: ScopeModel, why: "the model is unknown to the provider or closed to this key",
		names: []string{
			"model_not_found", "deploymentnotfound", "unknown_model", "unavailable_model", "invalid_model",
			"model_not_available", "model_decommissioned", "modelnotfound", "key_model_access_denied",
			"team_model_access_denied", "model_terms_required",
		},
	},
	{
		kind: Misconfigured, scope: ScopeModel, why: "the model is unknown to the provider or closed to this key",
		statuses: []int{400, 403, 404, 422},
		words: []string{
			"model … does not exist", "model … not found", "model not exist", "models/ … is not found",
			"invalid model", "unknown model", "unsupported model", "not a valid model", "model … has been deprecated",
			"model … decommissioned", "no endpoints found", "no allowed providers", "access to model",
		},
	},

	// A key that is not taken.
	{
		kind: Misconfigured, scope: ScopeParent, why: "the provider refuses the key or the account",
		names: []string{
			"invalid_api_key", "incorrect_api_key", "authentication_error", "permission_error", "invalid_organization",
			"mismatched_organization", "unsupported_country_region_territory", "organization_restricted",
			"account_deactivated", "access_terminated", "ip_not_authorized", "unauthenticated", "permission_denied",
		},
	},
	{
		kind: Misconfigured, scope: ScopeParent, why: "the provider refuses the key or the account", statuses: []int{400},
		words: []string{
			"api key not valid", "incorrect api key", "invalid api key", "user location is not supported",
			"organization has been restricted",
		},
	},

	// A limit that passes.
	{
		kind: RateLimited, why: "rate limit", statuses: []int{200, 400, 403, 413, 424},
		names: []string{
			"rate_limit_exceeded", "rate_limit_error", "rate_limit_reached_error", "ratelimitreached",
			"too_many_requests", "toomanyrequests", "throttling",
		},
	},
	{
		kind: RateLimited, tier: true, why: "no capacity for this service tier now", statuses: []int{400, 429, 498},
		names: []string{"resource_unavailable", "capacity_exceeded", "service_tier_capacity_exceeded"},
	},
	{kind: RateLimited, why: "rate limit", statuses: []int{429, 498}},

	// The status alone.
	{kind: Misconfigured, scope: ScopeParent, why: "the provider refuses the key or the account", statuses: []int{401, 403, 407}},
	{kind: Misconfigured, scope: ScopeModel, missing: true, why: "there is no such endpoint or model", statuses: []int{404, 405, 410}},
	{kind: Unavailable, why: "the provider could not take the request now", statuses: []int{408, 409, 421, 423, 424, 425, 499}},
	{kind: Unavailable, why: "a page in place of the provider's answer", statuses: []int{400}, html: true},
	{kind: InvalidRequest, why: "the server does not support the request", statuses: []int{501}, names: []string{"not_supported_error"}},
	{kind: InvalidRequest, why: "the request is larger than the provider takes", statuses: []int{413}},
	{kind: InvalidRequest, why: "the provider refuses the request", statuses: clientErrors()},
	{kind: Unavailable, why: "a redirect, which is not followed", statuses: []int{301, 302, 303, 307, 308}},
	{kind: Unavailable, why: "the provider failed"},
}

// clientErrors are the statuses that are the request's own fault, as far as no
// row before says otherwise.
func clientErrors() []int {
	var all []int
	for status := 400; status < 500; status++ {
		all = append(all, status)
	}
	return all
}

// classify returns the first row of a table that takes a refusal.
func classify(table []rule, s signal) rule {
	i := slices.IndexFunc(table, func(r rule) bool { return r.takes(s) })
	return table[i] // the last row takes everything
}

func (r rule) takes(s signal) bool {
	if len(r.statuses) > 0 && !slices.Contains(r.statuses, s.status) || r.html && !s.html {
		return false
	}
	if len(r.names)+len(r.words) == 0 {
		return true
	}
	return slices.ContainsFunc(r.names, s.hasName) ||
		slices.ContainsFunc(r.words, func(w string) bool { return saysInOrder(s.text, w) })
}

// saysInOrder says whether the text has the parts of w, which " … " divides, in
// their order.
func saysInOrder(text, w string) bool {
	for part := range strings.SplitSeq(w, " … ") {
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return true
}
