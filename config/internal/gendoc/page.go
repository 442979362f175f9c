package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"

	"nightshift/config"
)

//go:embed intro.md
var intro string

//go:embed outro.md
var outro string

// page writes the tables.
type page struct {
	bytes.Buffer
	structs structs
	later   []config.LaterKey
}

// generate returns the page for the types in file.
func generate(file string) ([]byte, error) {
	s, err := readStructs(file)
	if err != nil {
		return nil, err
	}
	p := &page{structs: s, later: config.Later()}
	p.WriteString(intro)
	p.section("Top level", "", "Config", "")
	for _, f := range s["Config"] {
		if _, ok := s[elem(f.typ)]; ok {
			p.block(f)
		}
	}
	p.WriteString(strings.ReplaceAll(outro, "{{sample}}", string(config.Sample())))
	return p.Bytes(), nil
}

// block writes the section of a top-level key.
func (p *page) block(f field) {
	prefix, title := f.key, "`"+f.key+"`"
	if f.tag.Get("keyed") != "" {
		prefix += ".*"
		title += ", by name"
	}
	p.section(title, f.text, elem(f.typ), prefix)
}

// section writes a heading and a table with the keys of a struct and of the
// structs in it; nothing where there are none.
func (p *page) section(title, text, name, prefix string) {
	rows := p.rows(name, prefix, "")
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(p, "\n## %s\n\n", title)
	if text != "" {
		fmt.Fprintf(p, "%s\n\n", text)
	}
	p.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
	for _, r := range rows {
		p.WriteString(r)
	}
}

// rows returns the table rows of a struct. prefix is the path as the list of
// later keys has it, shown what the table shows before a key.
func (p *page) rows(name, prefix, shown string) []string {
	var rows []string
	for _, f := range p.structs[name] {
		inner := elem(f.typ)
		path := strings.TrimPrefix(prefix+"."+f.key, ".")
		_, nested := p.structs[inner]
		switch {
		case nested && prefix == "":
			continue // has a section of its own
		case inner == "Breaker", inner == "Price" && shown != "":
			rows = append(rows, p.row(f, path, shown, "mapping"))
		case nested && strings.HasPrefix(f.typ, "[]"):
			rows = append(rows, p.rows(inner, path+".*", shown+f.key+"[].")...)
		case nested && strings.HasPrefix(f.typ, "map["):
			rows = append(rows, p.rows(inner, path+".*", shown+f.key+".NAME.")...)
		case nested:
			rows = append(rows, p.rows(inner, path, shown+f.key+".")...)
		default:
			rows = append(rows, p.row(f, path, shown, values(f)))
		}
	}
	return rows
}

func (p *page) row(f field, path, shown, value string) string {
	text := f.text
	if only, ok := p.only(path); ok {
		text += " **Later:** " + only
	}
	return fmt.Sprintf("| `%s%s` | %s | %s | %s |\n", shown, f.key, value, defaultText(f), strings.ReplaceAll(text, "|", `\|`))
}

// only says which values of a key to come are accepted meanwhile.
func (p *page) only(path string) (string, bool) {
	for _, k := range p.later {
		if path != k.Key && !strings.HasPrefix(path, k.Key+".") {
			continue
		}
		if k.OnlyText() == "" {
			return "must be absent or empty for now.", true
		}
		return fmt.Sprintf("only `%s` for now.", k.OnlyText()), true
	}
	return "", false
}
