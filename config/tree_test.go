package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestParse_ByteOrderMarkAndCRLF(t *testing.T) {
	t.Parallel()
	want := mustParse(t, minimal).Hash()
	if got := mustParse(t, byteOrderMark+strings.ReplaceAll(minimal, "\n", "\r\n")).Hash(); got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
}

// TestParse_Bounds: a small file that stands for a huge one is refused quickly.
func TestParse_Bounds(t *testing.T) {
	t.Parallel()
	var bomb strings.Builder // each level holds ten times the one before
	bomb.WriteString("a0: &a0 [x]\n")
	for i := range 12 {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
	}
	bomb.WriteString(strings.Replace(minimal, "{model: openai/gpt-4o}", "{model: openai/gpt-4o, set: {a: *a12}}", 1))
	for name, text := range map[string]string{
		"aliases":  bomb.String(),
		"nesting":  minimal + "x: " + strings.Repeat("[", 200) + strings.Repeat("]", 200),
		"own copy": "a: &a\n  b: *a\n",
		"size":     minimal + strings.Repeat("# a comment\n", maxBytes/10),
	} {
		start := time.Now()
		if _, err := Parse("n.yaml", []byte(text), env); err == nil {
			t.Errorf("%s: it loads", name)
		} else if took := time.Since(start); took > 20*time.Second { // unbounded, it would be years
			t.Errorf("%s: took %s", name, took)
		} else if len(err.Error()) > 5000 {
			t.Errorf("%s: %d bytes of problems", name, len(err.Error()))
		}
	}
}
