package archtest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	// slot is a use of one key or argument by its number.
	slot = regexp.MustCompile(`\b(KEYS|ARGV)\[(\d+)\]`)
	// table is any use of the keys or arguments.
	table = regexp.MustCompile(`\b(KEYS|ARGV)\b`)
	// absent are the libraries that the embedded Redis does not have.
	absent = regexp.MustCompile(`\b(cmsgpack|struct|bit)\.\w+`)
)

// scripts checks that the header of every Lua script, the comment before its
// first statement, names each KEYS and ARGV that the script uses, and that a
// script uses none of the libraries that the embedded Redis lacks.
func scripts(root string) ([]string, error) {
	names, err := files(root)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, name := range names {
		if path.Ext(name) != ".lua" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, fmt.Errorf("read script %s: %w", name, err)
		}
		problems = append(problems, script(name, string(text))...)
	}
	return problems, nil
}

func script(name, text string) []string {
	header, body := split(text)
	var problems []string
	missing := map[string]bool{}
	for _, use := range append(slot.FindAllString(body, -1), table.FindAllString(body, -1)...) {
		if !strings.Contains(header, use) && !missing[use] {
			missing[use] = true
			problems = append(problems, fmt.Sprintf("%s: the header does not name %s", name, use))
		}
	}
	for _, use := range absent.FindAllString(body, -1) {
		problems = append(problems, fmt.Sprintf("%s: uses %s, which the embedded Redis does not have", name, use))
	}
	return problems
}

// split parts a script into the comment at its top and its code without
// comments.
func split(text string) (header, body string) {
	var h, b strings.Builder
	for line := range strings.Lines(text) {
		code, comment, _ := strings.Cut(line, "--")
		if b.Len() == 0 && strings.TrimSpace(code) == "" {
			h.WriteString(comment)
			continue
		}
		b.WriteString(code + "\n")
	}
	return h.String(), b.String()
}
