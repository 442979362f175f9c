package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"nightshift/config"
)

var (
	// shown is one of our commands as a person types it, up to what ends it.
	shown = regexp.MustCompile(`(?:go run \./cmd/|bin/)(worker|enqueue)\b([^|;&)\n]*)`)
	// option is a flag in it.
	option = regexp.MustCompile(`(?:^|\s)--?([a-z][a-z-]*)`)
)

// readme checks what the documentation lets its readers type: the subcommands
// and flags in blocks of shell commands exist, and the configurations load.
func readme(root string) ([]string, error) {
	names, err := files(root)
	if err != nil {
		return nil, err
	}
	words, err := literals(root)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, name := range names {
		base := path.Base(name)
		if path.Ext(base) != ".md" && base != "Makefile" && base != "nightshift.yaml" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		problems = append(problems, typed(root, name, string(text), words)...)
		problems = append(problems, loads(name, string(text))...)
	}
	return problems, nil
}

// typed checks the commands of a file.
func typed(root, name, text string, words map[string]bool) []string {
	if path.Ext(name) == ".yaml" {
		return nil
	}
	all := lines(text)
	if path.Ext(name) == ".md" {
		all = blocks(text, "sh")
	}
	var problems []string
	for _, m := range all {
		command, _, _ := strings.Cut(m.text, " #")
		for _, c := range shown.FindAllStringSubmatch(command, -1) {
			for _, why := range unknown(root, c[1], c[2], words) {
				problems = append(problems, fmt.Sprintf("%s:%d: %s", name, m.line, why))
			}
		}
	}
	return problems
}

// unknown returns what a command's arguments name and its code does not.
func unknown(root, command, args string, words map[string]bool) []string {
	var problems []string
	if fields := strings.Fields(args); len(fields) > 0 && !strings.HasPrefix(fields[0], "-") {
		file := path.Join("cmd", command, fields[0]+".go")
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			problems = append(problems, fmt.Sprintf("%s %s: there is no %s", command, fields[0], file))
		}
	}
	for _, o := range option.FindAllStringSubmatch(args, -1) {
		if !words[command+" "+o[1]] {
			problems = append(problems, fmt.Sprintf("%s has no flag %s", command, o[1]))
		}
	}
	return problems
}

// literals returns "<command> <text>" for the texts that each command's code
// passes to calls, which is how flags are declared. What internal/cli declares
// is for both.
func literals(root string) (map[string]bool, error) {
	all, err := sources(root)
	if err != nil {
		return nil, err
	}
	words := map[string]bool{}
	for _, s := range all {
		if s.test {
			continue
		}
		for _, call := range calls(s.file) {
			for _, arg := range call.Args {
				lit, ok := arg.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					continue
				}
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					return nil, fmt.Errorf("%s: read text: %w", s.at(lit), err)
				}
				for _, command := range []string{"worker", "enqueue"} {
					if d := s.dir(); d == "cmd/"+command || d == "internal/cli" {
						words[command+" "+text] = true
					}
				}
			}
		}
	}
	return words, nil
}

// loads checks the configurations in a file: the whole of nightshift.yaml, and
// each block of a page that begins with its providers.
func loads(name, text string) []string {
	configs := []string{text}
	if path.Ext(name) != ".yaml" {
		configs = nil
		for _, m := range blocks(text, "yaml") {
			if m.text == "providers:" {
				configs = append(configs, "")
			}
			if len(configs) > 0 {
				configs[len(configs)-1] += m.text + "\n"
			}
		}
	}
	var problems []string
	present := func(key string) (string, bool) {
		if key == config.RedisEnv {
			return "", false
		}
		return "present", true
	}
	for _, c := range configs {
		if _, err := config.Parse(name, []byte(c), present); err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems
}
