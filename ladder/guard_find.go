package ladder

import (
	"encoding/json"
	"fmt"
	"strings"
)

// found is the JSON in an answer's text.
type found struct {
	texts []string // each is JSON
	why   string   // none, for the model
}

// maxBlocks is how many fenced blocks of an answer are looked at.
const maxBlocks = 16

// candidates finds the JSON in an answer: all of it, or else each of its fenced
// blocks that is JSON, whatever stands around them. JSON within prose without a
// fence is not looked for: where it ends would be a guess.
func candidates(text string) found {
	bare := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "\ufeff"))
	err := notJSON(bare)
	if err == nil {
		return found{texts: []string{bare}}
	}
	blocks := fenced(bare)
	var f found
	for _, b := range blocks {
		b = strings.TrimSpace(b)
		why := notJSON(b)
		if why == nil {
			f.texts = append(f.texts, b)
		}
		if len(blocks) == 1 {
			err = why
		}
	}
	if len(f.texts) == 0 {
		f.why = fmt.Sprintf("it is not JSON (%v)", err)
	}
	return f
}

// notJSON is nil for JSON.
func notJSON(text string) error {
	var v json.RawMessage
	return json.Unmarshal([]byte(text), &v)
}

// fenced returns the blocks between fences of three or more backticks or tildes,
// as Markdown has them; one that is not closed ends with the text. A block may
// also stand within one line, which models write and Markdown does not know.
func fenced(text string) []string {
	var blocks []string
	var block strings.Builder
	fence := ""
	for line := range strings.Lines(text) {
		mark, rest := fenceOf(line)
		switch {
		case fence == "" && mark == "":
		case fence == "" && strings.Contains(rest, mark):
			inner, _, _ := strings.Cut(rest, mark)
			blocks = append(blocks, unlabelled(inner))
		case fence == "":
			fence = mark
		case strings.HasPrefix(mark, fence) && strings.TrimSpace(rest) == "":
			blocks = append(blocks, block.String())
			block.Reset()
			fence = ""
		default:
			block.WriteString(line)
		}
		if len(blocks) == maxBlocks {
			return blocks
		}
	}
	if fence != "" {
		blocks = append(blocks, block.String())
	}
	return blocks
}

// fenceOf returns the fence that a line begins with, "" for none, and the rest.
func fenceOf(line string) (mark, rest string) {
	line = strings.TrimLeft(line, " \t")
	for _, c := range []string{"`", "~"} {
		rest = strings.TrimLeft(line, c)
		if n := len(line) - len(rest); n >= 3 {
			return line[:n], rest
		}
	}
	return "", line
}

// unlabelled drops the language that a block within one line begins with.
func unlabelled(block string) string {
	return strings.TrimLeft(block, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
}
