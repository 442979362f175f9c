package archtest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

var (
	// slot is a use of one key or argument by its number, or of all of them.
	slot = regexp.MustCompile(`\b(KEYS|ARGV)\b(?:\[(\d+)\])?`)
	// list is "ARGV: now (ms or ''), line, token" in a header, in order; it goes
	// on over lines that are further indented.
	list = regexp.MustCompile(`(?m)^ ?(KEYS|ARGV): *(.*(?:\n {2,}.*)*)`)
	// aside is what a header says of a name, in parentheses.
	aside = regexp.MustCompile(`\([^)]*\)`)
	// absent are the libraries that the embedded Redis does not have.
	absent = regexp.MustCompile(`\b(cmsgpack|struct|bit)\.\w+`)
)

// scripts checks that the header of every Lua script, the comment before its
// first statement, names each KEYS and ARGV that the script uses, one by one or
// as a list, and that a script uses none of the libraries that the embedded
// Redis lacks.
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
	listed := map[string]int{}
	for _, l := range list.FindAllStringSubmatch(header, -1) {
		listed[l[1]] += len(strings.Split(aside.ReplaceAllString(l[2], ""), ","))
	}
	var problems []string
	seen := map[string]bool{}
	for _, use := range slot.FindAllStringSubmatch(body, -1) {
		n, _ := strconv.Atoi(use[2]) // 0 where it has no number
		named := strings.Contains(header, use[0]) || n > 0 && n <= listed[use[1]]
		if !named && !seen[use[0]] {
			seen[use[0]] = true
			problems = append(problems, fmt.Sprintf("%s: the header does not name %s", name, use[0]))
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
