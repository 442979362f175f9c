package archtest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// image checks the Dockerfile as far as that goes without an engine: what it
// copies from here exists and reaches the build, the binaries that it copies
// are commands of this module and static, and the image runs as nobody.
func image(root string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		return nil, fmt.Errorf("read Dockerfile: %w", err)
	}
	ignored, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("read .dockerignore: %w", err)
	}
	var problems []string
	user := "root"
	for _, in := range instructions(string(text)) {
		switch in[0] {
		case "FROM":
			user = "root"
		case "USER":
			user = in[1]
		case "COPY":
			problems = append(problems, copied(root, in[1:], string(ignored))...)
		case "RUN":
			if line := strings.Join(in, " "); strings.Contains(line, "go build") && !strings.Contains(line, "CGO_ENABLED=0 go build") {
				problems = append(problems, "Dockerfile: the binaries are not static: build them with CGO_ENABLED=0")
			}
		}
	}
	if name, _, _ := strings.Cut(user, ":"); name == "root" || name == "0" {
		problems = append(problems, "Dockerfile: the image runs as root")
	}
	return problems, nil
}

// instructions returns the words of each instruction, continued lines joined.
func instructions(text string) [][]string {
	var all [][]string
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(words[0], "#") {
			all = append(all, words)
		}
	}
	return all
}

// copied checks the sources of one COPY.
func copied(root string, words []string, ignored string) []string {
	stage := strings.HasPrefix(words[0], "--from=")
	if stage {
		words = words[1:]
	}
	var problems []string
	for _, source := range words[:len(words)-1] {
		where := filepath.Join(root, source)
		if stage {
			where = filepath.Join(root, "cmd", path.Base(source), "main.go")
		}
		if _, err := os.Stat(where); err != nil {
			problems = append(problems, fmt.Sprintf("Dockerfile: copies %s, which does not exist", source))
		}
		for line := range strings.Lines(ignored) {
			if !stage && strings.TrimSpace(line) == source {
				problems = append(problems, fmt.Sprintf("Dockerfile: copies %s, which .dockerignore leaves out", source))
			}
		}
	}
	return problems
}
