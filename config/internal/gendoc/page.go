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
}

// generate returns the page for the types in file.
func generate(file string) ([]byte, error) {
	s, err := readStructs(file)
	if err != nil {
		return nil, err
	}
	p := &page{structs: s}
	p.WriteString(intro)
	p.section("Top level", "", "Config")
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
	title := "`" + f.key + "`"
	if f.tag.Get("keyed") != "" {
		title += ", by name"
	} else if strings.HasPrefix(f.typ, "[]") {
		title += ", a list"
	}
	p.section(title, f.text, elem(f.typ))
}

// section writes a heading and a table with the keys of a struct and of the
// structs in it; nothing where there are none.
func (p *page) section(title, text, name string) {
	rows := p.rows(name, "")
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

// rows returns the table rows of a struct, with what stands before each key.
func (p *page) rows(name, before string) []string {
	var rows []string
	for _, f := range p.structs[name] {
		inner := elem(f.typ)
		_, nested := p.structs[inner]
		switch {
		case nested && name == "Config":
			continue // has a section of its own
		case inner == "Breaker", inner == "Price" && before != "":
			rows = append(rows, p.row(f, before, "mapping"))
		case nested && strings.HasPrefix(f.typ, "[]"):
			rows = append(rows, p.rows(inner, before+f.key+"[].")...)
		case nested && strings.HasPrefix(f.typ, "map["):
			rows = append(rows, p.rows(inner, before+f.key+".NAME.")...)
		case nested:
			rows = append(rows, p.rows(inner, before+f.key+".")...)
		default:
			rows = append(rows, p.row(f, before, values(f)))
		}
	}
	return rows
}

func (p *page) row(f field, before, value string) string {
	return fmt.Sprintf("| `%s%s` | %s | %s | %s |\n", before, f.key, value, defaultText(f), strings.ReplaceAll(f.text, "|", `\|`))
}
