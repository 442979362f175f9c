package ladder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
)

// Who answered from a text rung: the provider, and the model's name in the body,
// the result and the counters.
const (
	textProvider = "nightshift"
	// TextModel stands for all texts; it is the key of no model.
	TextModel = "nightshift/text"
)

// shownFunc is the function that every printed value of a text passes through.
const shownFunc = "nightshift_shown"

// compileText parses the template of a text rung; a mistake in it, an unknown
// function among them, is found at the start and not in the night.
func compileText(i int, text string) (*template.Template, error) {
	t, err := template.New(fmt.Sprintf("rung %d", i+1)).
		Funcs(template.FuncMap{shownFunc: shown}).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse text: %w", err)
	}
	for _, part := range t.Templates() {
		if part.Tree != nil {
			showAll(part.Root)
		}
	}
	return t, nil
}

// shown is how a value stands in a text: what the line has not is nothing (the
// template's own word would be "<no value>"), objects and lists are JSON.
func shown(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case map[string]any, []any:
		b, err := encode(v)
		return string(b), err
	}
	return fmt.Sprint(v), nil
}

// showAll appends shown to every pipeline that prints.
func showAll(n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, c := range n.Nodes {
			showAll(c)
		}
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 {
			name := parse.NewIdentifier(shownFunc).SetPos(n.Pos)
			n.Pipe.Cmds = append(n.Pipe.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{name}})
		}
	case *parse.IfNode:
		showAll(n.List)
		showAll(n.ElseList)
	case *parse.RangeNode:
		showAll(n.List)
		showAll(n.ElseList)
	case *parse.WithNode:
		showAll(n.List)
		showAll(n.ElseList)
	}
}

// render fills a text in for a line.
func render(text *template.Template, line Request) (string, error) {
	data := map[string]any{"custom_id": line.CustomID, "endpoint": line.Endpoint}
	for name, raw := range map[string]json.RawMessage{"body": line.Body, "metadata": line.Metadata} {
		v, err := decode(raw)
		if err != nil {
			return "", fmt.Errorf("read %s of the line: %w", name, err)
		}
		data[name] = v
	}
	var out strings.Builder
	if err := text.Execute(&out, data); err != nil {
		return "", fmt.Errorf("fill in text: %w", err)
	}
	return out.String(), nil
}

// decode reads a JSON value with its numbers as they are written. An absent
// one is an empty object, so that a field of it is nothing and no error.
func decode(raw json.RawMessage) (any, error) {
	v := any(map[string]any{})
	if len(raw) == 0 {
		return v, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if v == nil {
		return map[string]any{}, nil
	}
	return v, nil
}

// encode is JSON that leaves <, > and & as they are: a text is no web page.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
