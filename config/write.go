package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// pair is one key of a mapping to be written; keys keep their order.
type pair struct {
	key   string
	value any
}

// writer writes YAML that means the same to every reader: texts are quoted as
// in JSON wherever they could be taken for something else. (The encoder of the
// YAML library leaves some bare that its own parser then refuses, as "? -".)
type writer struct{ bytes.Buffer }

// mapping writes pairs at an indent, from the cursor on: the first key stands
// where the line is.
func (w *writer) mapping(pairs []pair, indent int) {
	for i, p := range pairs {
		if i > 0 {
			w.WriteString(strings.Repeat(" ", indent))
		}
		w.WriteString(scalar(p.key) + ":")
		switch v := p.value.(type) {
		case []pair:
			if len(v) == 0 {
				w.WriteString(" {}\n")
				continue
			}
			w.WriteString("\n" + strings.Repeat(" ", indent+2))
			w.mapping(v, indent+2)
		case []any:
			w.list(v, indent+2)
		default:
			w.WriteString(" " + scalar(v) + "\n")
		}
	}
}

func (w *writer) list(items []any, indent int) {
	w.WriteString("\n")
	for _, item := range items {
		w.WriteString(strings.Repeat(" ", indent) + "- ")
		if pairs, ok := item.([]pair); ok {
			w.mapping(pairs, indent+2)
			continue
		}
		w.WriteString(scalar(item) + "\n")
	}
}

var (
	bareText = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]*(:[A-Za-z0-9_./-]+)*$`)
	// otherWords are texts that YAML, new or old, takes for something else.
	otherWords = regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|y|n|null|nan|inf)$`)
	bareTime   = regexp.MustCompile(`^([0-9.]+(h|m|s|ms|µs|ns))+$`)
)

// scalar writes a value in one line; JSON is YAML.
func scalar(v any) string {
	text, ok := v.(string)
	if ok && (bareText.MatchString(text) && !otherWords.MatchString(text) || bareTime.MatchString(text)) {
		return text
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // no value of a file is such
		return fmt.Sprintf("%q", "cannot be written: "+err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// duration is shorter than String: 168h in place of 168h0m0s.
func duration(t time.Duration) string {
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
