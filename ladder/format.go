package ladder

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"nightshift/provider"
)

// lineFormat is the format that a line's own body asks of its answer.
type lineFormat struct {
	Type   string `json:"type"`
	Schema struct {
		Schema json.RawMessage `json:"schema"`
		Strict bool            `json:"strict"`
	} `json:"json_schema"`
}

// formatOf returns a body's response_format, or the format of its text for a
// response; nil: it has none. Bodies can be large and few have one, so that the
// text is looked for first.
func formatOf(endpoint string, body []byte) *lineFormat {
	if endpoint == provider.Responses {
		return textFormat(body)
	}
	if !bytes.Contains(body, []byte(`"response_format"`)) {
		return nil
	}
	var b struct {
		Format json.RawMessage `json:"response_format"`
	}
	if err := json.Unmarshal(body, &b); err != nil || len(b.Format) == 0 || string(b.Format) == "null" {
		return nil
	}
	f := &lineFormat{}
	_ = json.Unmarshal(b.Format, f) // what is odd in it is the provider's to refuse
	return f
}

// textFormat is that of a response, whose schema stands a level higher.
func textFormat(body []byte) *lineFormat {
	var b struct {
		Text struct {
			Format *struct {
				Type   string          `json:"type"`
				Schema json.RawMessage `json:"schema"`
				Strict bool            `json:"strict"`
			} `json:"format"`
		} `json:"text"`
	}
	if !bytes.Contains(body, []byte(`"format"`)) || json.Unmarshal(body, &b) != nil || b.Text.Format == nil {
		return nil
	}
	f := &lineFormat{Type: b.Text.Format.Type}
	f.Schema.Schema, f.Schema.Strict = b.Text.Format.Schema, b.Text.Format.Strict
	return f
}

// strict says that the model is held to a schema.
func (f *lineFormat) strict() bool {
	return f != nil && f.Type == "json_schema" && f.Schema.Strict && len(f.Schema.Schema) > 0
}

// responseFormat asks a model for JSON of a schema. It is not strict: strict
// takes a part of JSON Schema alone, and the guard checks all of it.
func responseFormat(schema json.RawMessage) any {
	return map[string]any{
		"type": "json_schema", "json_schema": map[string]any{"name": "answer", "schema": schema},
	}
}

// wantsFormat says whether a call should tell the model of the guard's schema.
func (a *attempt) wantsFormat(r *rung) bool {
	if a.guard == nil || len(a.guard.text) == 0 || a.plain || a.r.Endpoint != provider.ChatCompletions {
		return false
	}
	if _, own := r.Set["response_format"]; own || slices.Contains(r.Drop, "response_format") {
		return false
	}
	return a.l.output.formats.taken(r.key.Model, a.guard.digest)
}

// formatRefused says that a call was refused for the response_format that we
// added, or may have been: nothing was bought, and the same call goes without it.
// Whether it was that, only its answer shows: providers quote requests, whose
// words can be the same.
func (a *attempt) formatRefused(r *rung, v variant, e *provider.Error) bool {
	if !v.format || e.Kind != provider.InvalidRequest || e.Parameter == "url" {
		return false
	}
	if !aboutFormat(e) && a.l.output.formats.known(r.key.Model) {
		return false
	}
	a.plain, a.doubted = true, true
	return true
}

// formatAnswered notes what an answer says about the response_format.
func (a *attempt) formatAnswered(r *rung, v variant) {
	switch {
	case v.format:
		a.l.output.formats.accept(r.key.Model)
	case a.doubted: // refused with it, answered without
		a.doubted = false
		a.refuseFormat(r)
	}
}

func (a *attempt) refuseFormat(r *rung) {
	a.l.output.formats.refuse(r.key.Model, a.guard.digest)
	a.l.log.InfoContext(a.ctx, "model does not take the schema as response_format and is asked without it", a.attrs(r)...)
}

// aboutFormat says that a refusal is about the response_format, as far as it says.
func aboutFormat(e *provider.Error) bool {
	if strings.HasPrefix(e.Parameter, "response_format") {
		return true
	}
	body := bytes.ToLower(e.Body)
	return slices.ContainsFunc([]string{"response_format", "response format", "json_schema", "structured output", "output_config", "grammar"},
		func(word string) bool { return bytes.Contains(body, []byte(word)) })
}

// formats remembers which models refused a schema as response_format, for as
// long as the process runs. It is safe for concurrent use.
type formats struct {
	mu      sync.Mutex
	schemas map[modelSchema]bool
	refused map[string]int // schemas that a model refused, since it last took one
	took    map[string]bool
}

type modelSchema struct {
	model  string
	schema [sha256.Size]byte
}

const (
	// maxRefused is how many schemas a model may refuse before it is not sent any more.
	maxRefused = 3
	// maxRemembered bounds the schemas that are remembered.
	maxRemembered = 1000
)

func newFormats() *formats {
	return &formats{schemas: map[modelSchema]bool{}, refused: map[string]int{}, took: map[string]bool{}}
}

// taken says whether the model may take the schema.
func (f *formats) taken(model string, schema [sha256.Size]byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused[model] < maxRefused && !f.schemas[modelSchema{model, schema}]
}

func (f *formats) refuse(model string, schema [sha256.Size]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := modelSchema{model, schema}
	if f.schemas[key] {
		return // by a call that was under way when the first was refused
	}
	if len(f.schemas) >= maxRemembered {
		clear(f.schemas)
	}
	f.schemas[key] = true
	f.refused[model]++
}

// accept notes that the model takes schemas.
func (f *formats) accept(model string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.took[model] = true
	delete(f.refused, model)
}

// known says that the model has taken a schema.
func (f *formats) known(model string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.took[model]
}
