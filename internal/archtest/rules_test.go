package archtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the repository, seen from this package's directory.
const root = "../.."

var rules = map[string]rule{
	"imports":      imports,
	"paths":        paths,
	"size":         size,
	"scripts":      scripts,
	"honesty":      honesty,
	"compose":      compose,
	"image":        image,
	"readme":       readme,
	"translations": translations,
}

// TestRepository holds every rule over the repository itself.
func TestRepository(t *testing.T) {
	for name, check := range rules {
		t.Run(name, func(t *testing.T) {
			problems, err := check(root)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range problems {
				t.Error(p)
			}
		})
	}
}

// TestFixtures proves that every rule can fail, and that it passes what is
// right: testdata/<rule>/<case> is a small repository, and its file want has
// the problems that the rule must find, no more and no fewer, in their order.
func TestFixtures(t *testing.T) {
	for name, check := range rules {
		cases, err := filepath.Glob(filepath.Join("testdata", name, "*"))
		if err != nil {
			t.Fatal(err)
		}
		if len(cases) < 2 {
			t.Errorf("rule %s has %d fixtures; it needs one that is right and one that is wrong", name, len(cases))
		}
		for _, dir := range cases {
			t.Run(name+"/"+filepath.Base(dir), func(t *testing.T) { fixture(t, check, dir) })
		}
	}
}

func fixture(t *testing.T, check rule, dir string) {
	want, err := os.ReadFile(filepath.Join(dir, "want"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := check(dir)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.FieldsFunc(string(want), func(r rune) bool { return r == '\n' })
	if !slices.EqualFunc(got, lines, matches) {
		t.Errorf("found:\n%s\nwant:\n%s", strings.Join(got, "\n"), want)
	}
}

// matches compares a problem with a line of a file want; one that ends in "..."
// is the beginning of a text that another package words.
func matches(problem, want string) bool {
	if start, ok := strings.CutSuffix(want, "..."); ok {
		return strings.HasPrefix(problem, start)
	}
	return problem == want
}
