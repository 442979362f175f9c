package provider

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strings"
)

// read translates a whole body.
func (t *translation) read(body []byte) error {
	if err := readFields(body, "", t.fields()); err != nil {
		return err
	}
	if err := t.settleLimit(); err != nil {
		return err
	}
	if err := t.settleTools(); err != nil {
		return err
	}
	if t.asJSON {
		t.out.System = append(t.out.System, block{Type: "text", Text: jsonInstruction})
	}
	if id := cmp.Or(t.users["safety_identifier"], t.users["user"]); id != "" {
		t.out.Metadata = &userMetadata{id}
	}
	if len(t.out.Messages) == 0 {
		return &fieldError{"messages", "hold nothing that could be answered"}
	}
	return nil
}

// jsonInstruction stands in for response_format json_object, which the Messages
// API does not have.
const jsonInstruction = "Answer with a single valid JSON object and nothing else: no prose before or after it, no code fence."

// fields is the one place that says what becomes of each field of a body.
func (t *translation) fields() handlers {
	out := &t.out
	h := handlers{
		"model":                 into("model", &out.Model),
		"messages":              t.readMessages,
		"max_tokens":            t.readLimit("max_tokens"),
		"max_completion_tokens": t.readLimit("max_completion_tokens"),
		"stop":                  t.readStop,
		"temperature":           t.readTemperature,
		"top_p":                 unlessOne(&out.TopP),
		"tools":                 t.readTools,
		"tool_choice":           t.readToolChoice,
		"parallel_tool_calls":   t.readParallel,
		"user":                  t.readUser("user"),
		"safety_identifier":     t.readUser("safety_identifier"),
		"response_format":       t.readFormat,
		"reasoning_effort":      t.readEffort,
		"service_tier":          t.readTier,
		// The API's own, for a rung to set.
		"top_k":         keep(&out.TopK),
		"thinking":      keep(&out.Thinking),
		"cache_control": keep(&out.CacheControl),
		"inference_geo": keep(&out.InferenceGeo),
		"speed":         keep(&out.Speed),
	}
	for _, name := range harmless {
		h[name] = leaveOut
	}
	for name, value := range neutral {
		h[name] = only(name, value)
	}
	return h
}

// harmless fields say how a request is carried, kept or cached at OpenAI, and
// nothing about its answer.
var harmless = []string{
	"stream", "stream_options", "store", "metadata", "prompt_cache_key", "prompt_cache_retention", "prediction",
}

// neutral are the values with which a field asks for nothing; any other value
// has no counterpart.
var neutral = map[string]any{
	"n": 1.0, "logprobs": false, "top_logprobs": 0.0, "logit_bias": map[string]any{},
	"frequency_penalty": 0.0, "presence_penalty": 0.0, "modalities": []any{"text"}, "verbosity": "medium",
	"functions": []any{},
}

// only leaves out a field that asks for nothing and refuses it otherwise.
func only(name string, value any) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var v any
		if json.Unmarshal(raw, &v) != nil || !reflect.DeepEqual(v, value) {
			return &fieldError{name, noCounterpart}
		}
		return nil
	}
}

// unlessOne passes a number on, but for 1, the default of both APIs.
func unlessOne(v *json.RawMessage) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var n float64
		if *v = raw; json.Unmarshal(raw, &n) == nil && n == 1 {
			*v = nil
		}
		return nil
	}
}

// readTemperature refuses what is above 1, the hottest here: 1.5 made 1 would
// be another request.
func (t *translation) readTemperature(raw json.RawMessage) error {
	var n float64
	switch {
	case json.Unmarshal(raw, &n) != nil:
		return &fieldError{"temperature", badType}
	case n > 1:
		return &fieldError{"temperature", "is above 1, the most that the Messages API takes"}
	}
	return unlessOne(&t.out.Temperature)(raw)
}

func (t *translation) readLimit(name string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var n int64
		if json.Unmarshal(raw, &n) != nil || n < 1 {
			return &fieldError{name, "is no whole number above 0"}
		}
		t.limits[name] = n
		return nil
	}
}

// settleLimit chooses between the two names of the limit.
func (t *translation) settleLimit() error {
	older, newer := t.limits["max_tokens"], t.limits["max_completion_tokens"]
	if older > 0 && newer > 0 && older != newer {
		return &fieldError{"max_tokens", "contradicts max_completion_tokens"}
	}
	t.out.MaxTokens = cmp.Or(newer, older, defaultMaxTokens)
	return nil
}

// readStop takes a string or a list; the API refuses sequences of white space alone.
func (t *translation) readStop(raw json.RawMessage) error {
	var one string
	list := []string{}
	if json.Unmarshal(raw, &one) == nil {
		list = append(list, one)
	} else if err := into("stop", &list)(raw); err != nil {
		return err
	}
	for _, s := range list {
		if strings.TrimSpace(s) == "" {
			return &fieldError{"stop", "is white space alone, which the Messages API does not take"}
		}
	}
	t.out.StopSequences = list
	return nil
}

func (t *translation) readUser(name string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var id string
		err := into(name, &id)(raw)
		t.users[name] = id
		return err
	}
}

// readFormat passes a schema on and asks in words for an object without one.
func (t *translation) readFormat(raw json.RawMessage) error {
	const at = "response_format"
	var kind string
	var schema json.RawMessage
	err := readFields(raw, at+".", handlers{"type": into(at+".type", &kind), "json_schema": keep(&schema)})
	switch {
	case err != nil:
		return err
	case kind == "text":
		return nil
	case kind == "json_object":
		t.asJSON = true
		return nil
	case kind == "json_schema" && schema != nil:
		return t.readSchema(schema)
	}
	return &fieldError{at + ".type", noCounterpart}
}

// readSchema takes a schema; the name is a label of OpenAI's, and the
// description goes into the schema, where the model sees it.
func (t *translation) readSchema(raw json.RawMessage) error {
	const at = "response_format.json_schema"
	var schema json.RawMessage
	var description string
	var strict bool
	err := readFields(raw, at+".", handlers{
		"name": leaveOut, "strict": into(at+".strict", &strict), "schema": keep(&schema),
		"description": into(at+".description", &description),
	})
	if err != nil {
		return err
	}
	obj, err := scanObject(schema)
	if err != nil {
		return &fieldError{at + ".schema", badType}
	}
	if description != "" && !obj.has("description") {
		schema = withText(schema, obj, "description", description)
	}
	t.config().Format = &outputFormat{"json_schema", schema}
	return nil
}

func (t *translation) config() *outputConfig {
	if t.out.OutputConfig == nil {
		t.out.OutputConfig = &outputConfig{}
	}
	return t.out.OutputConfig
}

// readEffort: both APIs have the same words but for the lowest.
func (t *translation) readEffort(raw json.RawMessage) error {
	var effort string
	if err := into("reasoning_effort", &effort)(raw); err != nil {
		return err
	}
	switch effort {
	case "low", "medium", "high", "xhigh", "max":
		t.config().Effort = effort
	case "none":
		t.out.Thinking = json.RawMessage(`{"type":"disabled"}`)
	default:
		return &fieldError{"reasoning_effort", "is none of none, low, medium, high, xhigh and max"}
	}
	return nil
}

// readTier: at OpenAI "default" means no better than standard.
func (t *translation) readTier(raw json.RawMessage) error {
	var tier string
	if err := into("service_tier", &tier)(raw); err != nil {
		return err
	}
	switch tier {
	case "auto":
		t.out.ServiceTier = "auto"
	case "default", "standard_only":
		t.out.ServiceTier = "standard_only"
	default:
		return &fieldError{"service_tier", "is none of auto, default and standard_only"}
	}
	return nil
}
