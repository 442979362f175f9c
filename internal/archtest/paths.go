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

var (
	// word is a run of characters that a path may be made of. A placeholder in
	// angle brackets stands for any name.
	word = regexp.MustCompile(`[\w.*<>@+-]+(?:/[\w.*<>@+-]+)*/?`)
	// code is an inline code span; link is the target of a Markdown link.
	code = regexp.MustCompile("`([^`\n]+)`")
	link = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	// placeholder is a name that the reader puts in.
	placeholder = regexp.MustCompile(`<[^<>/]*>`)
	// address is a URL, which is not ours.
	address = regexp.MustCompile(`[a-z][a-z+-]*://[^\s"')]*`)
)

// theirs are names that a user has and this repository has not: of files, and
// the form of a model's key.
var theirs = []string{
	"provider/name",
	"nightshift.yaml", "results.jsonl", "requests.jsonl", "errors.jsonl", "answer.schema.json", "answers.jsonl",
	"rehearsal.yaml", "rehearsal.jsonl",
}

// pathlike are the endings that make a word a path, whatever it begins with.
var pathlike = []string{".go", ".md", ".lua", ".sh", ".yaml", ".yml", ".json", ".jsonl", ".mod", ".html"}

// paths checks that the paths named in documentation, package comments, the
// Makefile, CI and the container files exist.
func paths(root string) ([]string, error) {
	names, err := files(root)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, name := range names {
		pick := picker(name)
		if pick == nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		problems = append(problems, dangling(root, name, pick(string(text)))...)
	}
	return problems, nil
}

// A mention is a piece of text in which paths may stand.
type mention struct {
	line int
	text string
}

// picker returns what picks the mentions of a file, nil where it has none.
func picker(name string) func(string) []mention {
	switch base := path.Base(name); {
	case path.Ext(base) == ".md":
		return markdown
	case base == "doc.go":
		return comments
	case base == "Makefile", base == "Dockerfile", base == "docker-compose.yml", path.Dir(name) == ".ci":
		return lines
	}
	return nil
}

// lines takes every line as it is.
func lines(text string) []mention {
	var all []mention
	for i, l := range strings.Split(text, "\n") {
		all = append(all, mention{line: i + 1, text: l})
	}
	return all
}

// comments takes the lines of comments.
func comments(text string) []mention {
	return slices.DeleteFunc(lines(text), func(m mention) bool { return !strings.HasPrefix(m.text, "//") })
}

// markdown takes inline code, link targets and blocks of shell commands.
func markdown(text string) []mention {
	all := blocks(text, "sh")
	for _, m := range blocks(text, "") {
		for _, span := range append(code.FindAllStringSubmatch(m.text, -1), link.FindAllStringSubmatch(m.text, -1)...) {
			all = append(all, mention{line: m.line, text: span[1]})
		}
	}
	slices.SortStableFunc(all, func(a, b mention) int { return a.line - b.line })
	return all
}

// blocks takes the lines of a page's fenced blocks in one language; "" takes
// what stands outside of blocks.
func blocks(text, language string) []mention {
	var all []mention
	inside, current := false, ""
	for _, m := range lines(text) {
		if lang, ok := strings.CutPrefix(strings.TrimSpace(m.text), "```"); ok {
			inside, current = !inside, lang
			if !inside {
				current = ""
			}
			continue
		}
		if inside == (language != "") && current == language {
			all = append(all, m)
		}
	}
	return all
}

// dangling returns a problem for each path of the mentions that does not exist.
func dangling(root, name string, all []mention) []string {
	top, err := os.ReadDir(root)
	if err != nil {
		return []string{fmt.Sprintf("read %s: %v", root, err)}
	}
	var problems []string
	for _, m := range all {
		for _, w := range words(m.text) {
			if isPath(w, top) && !exists(root, path.Dir(name), w) {
				problems = append(problems, fmt.Sprintf("%s:%d: %s does not exist", name, m.line, w))
			}
		}
	}
	return problems
}

// words returns what may be a path in a text: neither part of an address nor
// absolute, and without a leading "./", a trailing "/..." or punctuation.
func words(text string) []string {
	var all []string
	text = address.ReplaceAllString(text, " ")
	for _, at := range word.FindAllStringIndex(text, -1) {
		if at[0] > 0 && strings.ContainsRune("/:$~{}^", rune(text[at[0]-1])) {
			continue
		}
		w := strings.TrimRight(strings.TrimPrefix(text[at[0]:at[1]], "./"), ".,")
		if w != "" && w != "/" {
			all = append(all, w)
		}
	}
	return all
}

// isPath tells a path of this repository from other words: it begins with
// something at the root, ends like a file of ours, or names a directory by its
// slash.
func isPath(w string, top []os.DirEntry) bool {
	if slices.Contains(theirs, w) || strings.HasPrefix(w, "bin/") || strings.HasPrefix(w, "*") {
		return false
	}
	if slices.Contains(pathlike, path.Ext(w)) && path.Ext(w) != path.Base(w) {
		return true
	}
	first, _, deep := strings.Cut(w, "/")
	if !deep {
		return false
	}
	return strings.HasSuffix(w, "/") || slices.ContainsFunc(top, func(e os.DirEntry) bool { return e.Name() == first })
}

// exists tells whether a path exists, from the root or from the directory of
// the file that names it. A placeholder or a star stands for at least one name.
func exists(root, dir, w string) bool {
	pattern := placeholder.ReplaceAllString(w, "*")
	for _, base := range []string{root, filepath.Join(root, dir)} {
		if found, err := filepath.Glob(filepath.Join(base, pattern)); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}
