package provider

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// signal is what the table looks at in a refusal.
type signal struct {
	status  int
	html    bool
	errType string
	code    string
	param   string
	names   []string // every type, code and status in the body, in lower case
	text    string   // the message, in lower case
	// retryDelay is a wait in the body, which Google sends in place of a header.
	retryDelay time.Duration
}

func (s signal) hasName(name string) bool {
	for _, n := range s.names {
		if n == name {
			return true
		}
	}
	return false
}

// moderated stands for a refusal that comes with the moderation's reasons.
const moderated = "(moderated)"

// refusalBody is every shape of error that the family sends: OpenAI's own, the
// same without its envelope (older vLLM, Mistral), a string in place of the
// object (Ollama, xAI, TGI), FastAPI's details, problem documents.
type refusalBody struct {
	Error   json.RawMessage `json:"error"`
	Type    scalar          `json:"type"`
	Code    scalar          `json:"code"`
	Param   scalar          `json:"param"`
	Message scalar          `json:"message"`
	Msg     scalar          `json:"msg"`
	Status  scalar          `json:"status"` // Google's name, or the HTTP status again
	Detail  json.RawMessage `json:"detail"` // a string, or FastAPI's list
	Inner   struct {
		Code scalar `json:"code"`
	} `json:"innererror"` // Azure
	Metadata struct { // OpenRouter
		Raw     scalar          `json:"raw"`
		Reasons json.RawMessage `json:"reasons"`
		Flagged scalar          `json:"flagged_input"`
	} `json:"metadata"`
	Details json.RawMessage `json:"details"` // Google
}

// readSignal reads a refusal's body; what it cannot read it leaves out, and the
// status decides.
func readSignal(status int, body []byte) signal {
	body = bytes.TrimSpace(body)
	s := signal{status: status, html: bytes.HasPrefix(body, []byte("<"))}
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0] // Google wraps the error in a list
	}
	var b refusalBody
	_ = json.Unmarshal(body, &b) // a field of an odd type leaves the others
	s.read(b)
	var text scalar
	var inner refusalBody
	switch {
	case isEmpty(b.Error):
	case json.Unmarshal(b.Error, &text) == nil && text != "":
		s.text += " " + strings.ToLower(text.String())
	default:
		_ = json.Unmarshal(b.Error, &inner)
		s.read(inner)
	}
	s.text = beforeInput(s.text)
	if n, err := strconv.Atoi(s.code); err == nil && n >= 400 && n <= 599 && status < 300 {
		s.status = n
	}
	return s
}

// read adds what one level of the body says; the inner one comes last and wins.
func (s *signal) read(b refusalBody) {
	for _, name := range []scalar{b.Type, b.Code, b.Status, b.Inner.Code} {
		if name != "" {
			s.names = append(s.names, strings.ToLower(name.String()))
		}
	}
	if b.Type != "" && !strings.EqualFold(b.Type.String(), "none") {
		s.errType = b.Type.String()
	}
	if b.Code != "" {
		s.code = b.Code.String()
	}
	if p := b.Param.String(); p != "" && !strings.EqualFold(p, "none") {
		s.param = p
	}
	var detail scalar
	_ = json.Unmarshal(b.Detail, &detail)
	s.text += strings.ToLower(strings.Join([]string{
		b.Message.String(), b.Msg.String(), detail.String(), b.Metadata.Raw.String(),
	}, " "))
	if !isEmpty(b.Metadata.Reasons) || b.Metadata.Flagged != "" {
		s.names = append(s.names, moderated)
	}
	s.readValidation(b.Detail)
	s.readRetryInfo(b.Details)
}

// readValidation reads FastAPI's list of what is wrong with which field.
func (s *signal) readValidation(raw json.RawMessage) {
	var faults []struct {
		Type scalar   `json:"type"`
		Loc  []scalar `json:"loc"`
		Msg  scalar   `json:"msg"`
	}
	_ = json.Unmarshal(raw, &faults)
	for _, f := range faults {
		s.names = append(s.names, strings.ToLower(f.Type.String()))
		s.text += " " + strings.ToLower(f.Msg.String())
		if f.Type == "extra_forbidden" && len(f.Loc) > 1 {
			s.param = f.Loc[1].String() // loc[0] is "body"
		}
	}
}

func (s *signal) readRetryInfo(raw json.RawMessage) {
	var details []struct {
		RetryDelay scalar `json:"retryDelay"`
	}
	_ = json.Unmarshal(raw, &details)
	for _, d := range details {
		if wait, err := time.ParseDuration(d.RetryDelay.String()); err == nil {
			s.retryDelay = max(s.retryDelay, wait)
		}
	}
}

// beforeInput cuts a message off where a validator begins to repeat the
// request: a prompt about context windows must not look like the error.
func beforeInput(text string) string {
	for _, mark := range []string{"'input':", `"input":`, "input_value=", "flagged_input"} {
		text, _, _ = strings.Cut(text, mark)
	}
	return text
}

// namedParameter finds a field where only the message names it.
var namedParameter = regexp.MustCompile(
	`(?:unsupported parameter: |unsupported value: |unknown parameter: |request argument supplied: )['"]?([a-z0-9_.\[\]]+)`)

// parameter returns the field that was refused, as far as the provider says;
// "body" where it does not.
func (s signal) parameter() string {
	m := namedParameter.FindStringSubmatch(s.text)
	switch {
	case s.param != "":
		return s.param
	case m != nil:
		return strings.TrimRight(m[1], ".")
	case strings.Contains(s.text, "tool"):
		return "tools"
	default:
		return "body"
	}
}
