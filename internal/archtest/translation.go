package archtest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// target is what a link of a page points to.
var target = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// translations checks that README.<language>.md keeps step with the README.md
// beside it: headings of the same depths, the same code and commands in the same
// order, the same links. The words are the translator's.
func translations(root string) ([]string, error) {
	names, err := files(root)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, name := range names {
		if ok, _ := path.Match("README.*.md", path.Base(name)); !ok {
			continue
		}
		original := path.Join(path.Dir(name), "README.md")
		want, err := outline(filepath.Join(root, original))
		if err != nil {
			return nil, err
		}
		got, err := outline(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		problems = append(problems, astray(name, original, got, want)...)
	}
	return problems, nil
}

// A shape is one thing that a page and its translations have in common.
type shape struct {
	kind string
	rows []string
}

// outline returns the shapes of a page, always the same kinds in the same order.
func outline(name string) ([]shape, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	headings, code, commands, links := shape{kind: "heading"}, shape{kind: "code"}, shape{kind: "command"}, shape{kind: "link"}
	fenced := false
	for row := range strings.Lines(string(text)) {
		row = strings.TrimRight(row, "\r\n")
		fence := strings.HasPrefix(row, "```")
		switch {
		case fence || fenced || strings.HasPrefix(row, "    "):
			code.rows = append(code.rows, row)
		case strings.HasPrefix(row, "#"):
			depth, _, _ := strings.Cut(row, " ")
			headings.rows = append(headings.rows, depth)
		case strings.HasPrefix(row, "| `"):
			cells := strings.Split(row, " | ")
			commands.rows = append(commands.rows, strings.TrimPrefix(cells[0], "| "))
			links.rows = append(links.rows, targets(row)...)
		default:
			links.rows = append(links.rows, targets(row)...)
		}
		fenced = fenced != fence
	}
	slices.Sort(links.rows) // word order differs
	return []shape{headings, code, commands, {kind: links.kind, rows: slices.Compact(links.rows)}}, nil
}

// targets returns where the links of a row point to, but for those from one
// language to another.
func targets(row string) (found []string) {
	for _, m := range target.FindAllStringSubmatch(row, -1) {
		if !strings.HasPrefix(path.Base(m[1]), "README") || strings.Contains(m[1], "/") {
			found = append(found, m[1])
		}
	}
	return found
}

// astray names the first difference of each kind.
func astray(name, original string, got, want []shape) (problems []string) {
	for i, w := range want {
		g := got[i]
		n := max(len(g.rows), len(w.rows))
		for j := range n {
			if at(g.rows, j) != at(w.rows, j) {
				problems = append(problems, fmt.Sprintf("%s: %s %d is %q and in %s %q: bring the translation up to date",
					name, w.kind, j+1, at(g.rows, j), original, at(w.rows, j)))
				break
			}
		}
	}
	return problems
}

func at(rows []string, i int) string {
	if i < len(rows) {
		return rows[i]
	}
	return ""
}
