package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
)

// field is one key of a struct.
type field struct {
	key  string
	typ  string // as written in Go
	tag  reflect.StructTag
	text string // the comment above it
}

// structs are the types of the file, by name.
type structs map[string][]field

// readStructs parses the file with the configuration's types.
func readStructs(file string) (structs, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("parse types: %w", err)
	}
	out := structs{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if s, ok := spec.Type.(*ast.StructType); ok {
				out[spec.Name.Name] = fieldsOf(s)
			}
		}
		return true
	})
	return out, nil
}

func fieldsOf(s *ast.StructType) []field {
	var fields []field
	for _, f := range s.Fields.List {
		if f.Tag == nil {
			continue
		}
		text, err := strconv.Unquote(f.Tag.Value)
		tag := reflect.StructTag(text)
		if key := tag.Get("yaml"); err == nil && key != "-" {
			fields = append(fields, field{key: key, typ: typeText(f.Type), tag: tag, text: comment(f.Doc)})
		}
	}
	return fields
}

func comment(c *ast.CommentGroup) string {
	return strings.Join(strings.Fields(c.Text()), " ")
}

// typeText writes a type as Go does.
func typeText(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.StarExpr:
		return "*" + typeText(t.X)
	case *ast.ArrayType:
		return "[]" + typeText(t.Elt)
	case *ast.MapType:
		return "map[" + typeText(t.Key) + "]" + typeText(t.Value)
	case *ast.SelectorExpr:
		return typeText(t.X) + "." + t.Sel.Name
	}
	return "?"
}

// elem is the struct that a type holds: itself, or of its elements.
func elem(typ string) string {
	typ = strings.TrimPrefix(typ, "*")
	typ = strings.TrimPrefix(typ, "[]")
	return strings.TrimPrefix(typ, "map[string]")
}

// values says what may stand at a key.
func values(f field) string {
	if enum := f.tag.Get("enum"); enum != "" {
		return "`" + strings.ReplaceAll(enum, ",", "`, `") + "`"
	}
	name := map[string]string{
		"string": "text", "bool": "`true`, `false`", "int": "whole number", "float64": "number", "*float64": "number",
		"time.Duration": "duration", "Auto": "duration or `auto`", "[]string": "list of texts", "map[string]any": "mapping", "Headers": "mapping of texts", "SecretURL": "text",
	}[f.typ]
	low, high := f.tag.Get("min"), f.tag.Get("max")
	switch {
	case low != "" && high != "":
		return fmt.Sprintf("%s, %s to %s", name, low, high)
	case low != "":
		return fmt.Sprintf("%s, at least %s", name, low)
	case high != "":
		return fmt.Sprintf("%s, at most %s", name, high)
	}
	return name
}

// defaultText is the value of a key that is absent.
func defaultText(f field) string {
	if text, ok := f.tag.Lookup("default"); ok {
		return "`" + text + "`"
	}
	if strings.Contains(f.text, "Default:") || strings.Contains(f.text, "Required") {
		return ""
	}
	switch f.typ {
	case "int", "float64":
		return "`0`"
	case "bool":
		return "`false`"
	case "time.Duration":
		return "`0s`"
	}
	return ""
}
