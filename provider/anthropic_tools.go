package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// tool is a function that the model may call.
type tool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"`
	Strict       bool            `json:"strict,omitempty"`
	CacheControl json.RawMessage `json:"cache_control,omitempty"`
}

type toolChoice struct {
	Type       string `json:"type"` // auto, any, tool or none
	Name       string `json:"name,omitempty"`
	NoParallel bool   `json:"disable_parallel_tool_use,omitempty"`
}

func (t *translation) readTools(raw json.RawMessage) error {
	t.out.Tools = nil
	return elements(raw, "tools", func(raw json.RawMessage, i int) error {
		at := fmt.Sprintf("tools[%d]", i)
		var kind string
		var function, cache json.RawMessage
		err := readFields(raw, at+".", handlers{
			"type": into(at+".type", &kind), "function": keep(&function), "cache_control": keep(&cache),
		})
		if err != nil {
			return err
		}
		if kind != "function" || function == nil {
			return &fieldError{at + ".type", noCounterpart}
		}
		f, err := readFunction(function, at+".function")
		f.CacheControl = cache
		t.out.Tools = append(t.out.Tools, f)
		return err
	})
}

func readFunction(raw json.RawMessage, at string) (tool, error) {
	var f tool
	err := readFields(raw, at+".", handlers{
		"name": into(at+".name", &f.Name), "description": into(at+".description", &f.Description),
		"strict": into(at+".strict", &f.Strict), "parameters": keep(&f.InputSchema),
	})
	if err != nil {
		return f, err
	}
	f.InputSchema, err = inputSchema(f.InputSchema, at+".parameters")
	return f, err
}

// inputSchema adds the type that the API demands and OpenAI does not.
func inputSchema(schema json.RawMessage, at string) (json.RawMessage, error) {
	if schema == nil {
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	}
	obj, err := scanObject(schema)
	if err != nil {
		return nil, &fieldError{at, badType}
	}
	if obj.has("type") {
		return schema, nil
	}
	return withText(schema, obj, "type", "object"), nil
}

// has says whether an object has a field.
func (o object) has(key string) bool {
	for _, m := range o.members {
		if m.key == key {
			return true
		}
	}
	return false
}

// readToolChoice reads a word or the name of a function.
func (t *translation) readToolChoice(raw json.RawMessage) error {
	const at = "tool_choice"
	words := map[string]string{"auto": "auto", "required": "any", "none": "none"}
	var word string
	if json.Unmarshal(raw, &word) == nil {
		if words[word] == "" {
			return &fieldError{at, noCounterpart}
		}
		t.choice = &toolChoice{Type: words[word]}
		t.toolsRequired = word == "required"
		return nil
	}
	var kind, name string
	err := readFields(raw, at+".", handlers{
		"type": into(at+".type", &kind),
		"function": func(raw json.RawMessage) error {
			return readFields(raw, at+".function.", handlers{"name": into(at+".function.name", &name)})
		},
	})
	if err != nil {
		return err
	}
	if kind != "function" || name == "" {
		return &fieldError{at + ".type", noCounterpart}
	}
	t.choice, t.toolsRequired = &toolChoice{Type: "tool", Name: name}, true
	return nil
}

func (t *translation) readParallel(raw json.RawMessage) error {
	var parallel bool
	err := into("parallel_tool_calls", &parallel)(raw)
	t.noParallel = !parallel
	return err
}

// settleTools puts together what the request says about tools in three places.
func (t *translation) settleTools() error {
	if len(t.out.Tools) == 0 {
		if t.toolsRequired {
			return &fieldError{"tool_choice", "asks for a tool, and there are none"}
		}
		return nil // "auto" and "none" ask for nothing then
	}
	t.out.ToolChoice = t.choice
	if !t.noParallel {
		return nil
	}
	if t.choice == nil {
		t.out.ToolChoice = &toolChoice{Type: "auto"}
	}
	t.out.ToolChoice.NoParallel = t.out.ToolChoice.Type != "none"
	return nil
}

// readToolCalls reads the calls of an earlier answer.
func readToolCalls(raw json.RawMessage, at string) ([]block, error) {
	var calls []block
	err := elements(raw, at, func(raw json.RawMessage, i int) error {
		at := fmt.Sprintf("%s[%d]", at, i)
		kind, b := "function", block{Type: "tool_use"}
		var arguments string
		err := readFields(raw, at+".", handlers{
			"id": into(at+".id", &b.ID), "type": into(at+".type", &kind), "index": leaveOut,
			"function": func(raw json.RawMessage) error {
				return readFields(raw, at+".function.", handlers{
					"name": into(at+".function.name", &b.Name), "arguments": into(at+".function.arguments", &arguments),
				})
			},
		})
		switch {
		case err != nil:
			return err
		case kind != "function":
			return &fieldError{at + ".type", noCounterpart}
		case b.ID == "":
			return &fieldError{at + ".id", "is missing"}
		}
		b.ID = toolID(b.ID)
		b.Input, err = toolInput(arguments, at+".function.arguments")
		calls = append(calls, b)
		return err
	})
	return calls, err
}

// toolInput reads arguments, which OpenAI has as the text of an object.
func toolInput(arguments, at string) (json.RawMessage, error) {
	arguments = strings.TrimSpace(arguments)
	if arguments == "" {
		return json.RawMessage("{}"), nil
	}
	if _, err := scanObject([]byte(arguments)); err != nil {
		return nil, &fieldError{at, "are not the JSON of an object"}
	}
	var compact bytes.Buffer
	err := json.Compact(&compact, []byte(arguments))
	return compact.Bytes(), err
}

// toolID makes an ID of other providers one that the API takes: letters,
// digits, _ and - alone.
func toolID(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, id)
}
