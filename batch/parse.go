package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"nightshift/config"
	"nightshift/internal/jsonscan"
	"nightshift/provider"
)

// maxCustomID is the longest custom_id, in bytes.
const maxCustomID = 512

// parseLine reads one line of input. A line's raw bytes end before its newline.
// The error is a *fieldError where it concerns a field; the Line has its ID then,
// where that can be read.
func parseLine(raw []byte) (Line, error) {
	if !utf8.Valid(raw) {
		return Line{}, errors.New("it is not UTF-8")
	}
	if !jsonscan.Valid(raw, provider.MaxNesting) {
		return Line{}, whyInvalid(raw)
	}
	if b := bytes.TrimLeft(raw, " \t\r"); b[0] != '{' {
		return Line{}, fmt.Errorf("it is %s, not an object", kindOf(b))
	}
	var room aFewFields
	envelope, err := fields(room[:0], raw)
	if err != nil {
		return Line{}, err
	}
	l, err := parseEnvelope(envelope)
	if err != nil {
		l = Line{CustomID: idOf(envelope)}
	}
	return l, err
}

// idOf is the ID of a line of either kind that is wrong elsewhere.
func idOf(envelope []field) (id string) {
	for _, f := range envelope {
		if f.name == "custom_id" || f.name == "id" && id == "" {
			if v, err := parseID(f); err == nil {
				id = v
			}
		}
	}
	return id
}

func parseEnvelope(envelope []field) (Line, error) {
	for _, f := range envelope {
		switch f.name {
		case "custom_id", "body", "method", "url":
			return parseOpenAI(envelope)
		}
	}
	for _, f := range envelope {
		switch f.name {
		case "id", "prompt":
			return parseShort(envelope)
		}
	}
	return Line{}, errors.New(`it is not a request: it has neither "custom_id" and "body" nor "id" and "prompt"`)
}

// whyInvalid says what is wrong with what is no JSON.
func whyInvalid(raw []byte) error {
	if provider.TooDeep(raw) { // encoding/json calls it no JSON at some depth
		return fmt.Errorf("it is nested deeper than %d levels", provider.MaxNesting)
	}
	var v json.RawMessage
	err := json.Unmarshal(raw, &v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("it is not JSON: %s at byte %d", syntax, syntax.Offset)
	}
	return fmt.Errorf("it is not JSON: %w", err)
}

// parseOpenAI reads a line of OpenAI's Batch API.
func parseOpenAI(envelope []field) (Line, error) {
	var l Line
	var method string
	var err error
	for _, f := range envelope {
		switch f.name {
		case "custom_id":
			l.CustomID, err = parseID(f)
		case "method":
			method, err = parseString(f)
		case "url":
			l.Endpoint, err = parseURL(f)
		case "body":
			l.Body = f.value
		case "probe_safe":
			l.NoProbe, err = parseFalse(f)
		default:
			err = &fieldError{f.name, "it is not a field of a request (custom_id, method, url, body, probe_safe)"}
		}
		if err != nil {
			return Line{}, err
		}
	}
	switch {
	case l.CustomID == "":
		return Line{}, &fieldError{"custom_id", "it is missing"}
	case method != "POST":
		return Line{}, &fieldError{"method", fmt.Sprintf("it is %q, not \"POST\"", method)}
	case l.Endpoint == "":
		return Line{}, &fieldError{"url", "it is missing"}
	case l.Body == nil:
		return Line{}, &fieldError{"body", "it is missing"}
	}
	err = l.parseBody()
	return l, err
}

// parseBody checks a body for its endpoint and takes its metadata and the model
// that it names.
func (l *Line) parseBody() error {
	if l.Body[0] != '{' {
		return &fieldError{"body", "it is " + kindOf(l.Body) + ", not an object"}
	}
	var room aFewFields
	members, err := fields(room[:0], l.Body)
	var fe *fieldError
	if errors.As(err, &fe) {
		return &fieldError{"body." + fe.name, fe.msg}
	}
	if err != nil {
		return err
	}
	needs, complete := endpoints[l.Endpoint], false
	for _, f := range members {
		found, err := needs.check(f)
		if err != nil {
			return err
		}
		complete = complete || found
		switch f.name {
		case "metadata":
			if f.value[0] == '{' {
				l.Metadata = f.value
			}
		case "model":
			l.Model = modelOf(f.value)
		}
	}
	if !complete {
		return &fieldError{"body." + needs.field, "it is missing"}
	}
	return nil
}

// modelOf is the name of a model; null names none. What is no text stands for
// itself, since no ladder has a model of that name.
func modelOf(value []byte) string {
	if string(value) == "null" {
		return ""
	}
	if value[0] == '"' {
		if name, err := unquote(value); err == nil {
			return name
		}
	}
	return string(value)
}

// shortLine is what a short line says.
type shortLine struct {
	system, prompt string
	hasSystem      bool
	maxTokens      int64
}

// parseShort reads a line {"id","prompt"} and makes its body.
func parseShort(envelope []field) (Line, error) {
	l := Line{Endpoint: provider.ChatCompletions}
	var s shortLine
	var err error
	for _, f := range envelope {
		switch f.name {
		case "id":
			l.CustomID, err = parseID(f)
		case "prompt":
			s.prompt, err = parseString(f)
		case "system":
			s.system, err = parseString(f)
			s.hasSystem = true
		case "max_tokens":
			s.maxTokens, err = parsePositive(f)
		case "metadata":
			if f.value[0] != '{' {
				err = &fieldError{f.name, "it is " + kindOf(f.value) + ", not an object"}
			}
			l.Metadata = f.value
		case "probe_safe":
			l.NoProbe, err = parseFalse(f)
		case "goal":
			l.Goal, err = parseGoal(f)
		case "schema":
			if f.value[0] != '{' {
				err = &fieldError{f.name, "it is " + kindOf(f.value) + ", not an object"}
			}
			l.Schema = f.value
		default:
			err = &fieldError{f.name, "it is not a field of a short line (id, prompt, system, max_tokens, schema, goal, metadata, probe_safe)"}
		}
		if err != nil {
			return Line{}, err
		}
	}
	switch {
	case l.CustomID == "":
		return Line{}, &fieldError{"id", "it is missing"}
	case s.prompt == "":
		return Line{}, &fieldError{"prompt", "it is missing or empty"}
	}
	l.Body, err = s.body()
	return l, err
}

// body makes the request of a short line; the model is the ladder's choice.
func (s shortLine) body() (json.RawMessage, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var messages []message
	if s.hasSystem {
		messages = append(messages, message{"system", s.system})
	}
	messages = append(messages, message{"user", s.prompt})
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(struct {
		Messages  []message `json:"messages"`
		MaxTokens int64     `json:"max_tokens,omitempty"`
	}{messages, s.maxTokens})
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), err
}

func parseID(f field) (string, error) {
	id, err := parseString(f)
	switch {
	case err != nil:
		return "", err
	case id == "":
		return "", &fieldError{f.name, "it is empty"}
	case len(id) > maxCustomID:
		return "", &fieldError{f.name, fmt.Sprintf("it has %d bytes; %d are allowed", len(id), maxCustomID)}
	}
	return id, nil
}

func parseString(f field) (string, error) {
	if f.value[0] != '"' {
		return "", &fieldError{f.name, "it is " + kindOf(f.value) + ", not a string"}
	}
	s, err := unquote(f.value)
	if err != nil {
		return "", &fieldError{f.name, err.Error()}
	}
	return s, nil
}

// parseFalse says whether a field that is true by default is false.
func parseFalse(f field) (bool, error) {
	switch string(f.value) {
	case "true", "false":
		return string(f.value) == "false", nil
	}
	return false, &fieldError{f.name, "it is " + kindOf(f.value) + ", not true or false"}
}

func parsePositive(f field) (int64, error) {
	n, err := strconv.ParseInt(string(f.value), 10, 64)
	if err != nil || n <= 0 {
		return 0, &fieldError{f.name, "it must be a whole number above 0"}
	}
	return n, nil
}

// goals are the goals that a line may have, in the order in which chunks number
// them; "" is none.
var goals = []string{"", "order", "balanced", "speed", "cost", "reliability", config.GoalOwn}

func parseGoal(f field) (string, error) {
	goal, err := parseString(f)
	if err == nil && (goal == "" || !slices.Contains(goals, goal)) {
		err = &fieldError{f.name, fmt.Sprintf("%q is not a goal (%s)", goal, strings.Join(goals[1:], ", "))}
	}
	return goal, err
}
