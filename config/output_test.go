package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const withSchema = `
providers:
  openai: {api_key_env: OPENAI_API_KEY}
models:
  openai/gpt-4o: {}
ladders:
  nightly: {rungs: [{model: openai/gpt-4o}], output: {schema: answer.json, deny: [secret]}}
queues:
  overnight: {ladder: nightly}
`

func writeSchema(t *testing.T, text string) (file string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "answer.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "nightshift.yaml")
}

// A schema is read beside the configuration, once, and its text is what the
// configurations of a fleet are compared by.
func TestParse_ReadsTheSchema(t *testing.T) {
	t.Parallel()
	hashes := map[string]string{}
	for _, text := range []string{`{"type": "object"}`, `{"type": "object"}`, `{"type": "array"}`} {
		file := writeSchema(t, text)
		cfg, err := Parse(file, []byte(withSchema), env)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(cfg.Ladders["nightly"].Output.SchemaText); got != text {
			t.Errorf("read %q", got)
		}
		if strings.Contains(cfg.Redacted(), text) || !strings.Contains(cfg.Redacted(), filepath.Dir(file)) {
			t.Errorf("printed as %s", cfg.Redacted())
		}
		if h, ok := hashes[text]; ok && h != cfg.Hash() {
			t.Error("the same schema elsewhere is another configuration")
		}
		hashes[text] = cfg.Hash()
	}
	if len(hashes) != 2 || hashes[`{"type": "object"}`] == hashes[`{"type": "array"}`] {
		t.Errorf("hashes %v", hashes)
	}
}

func TestParse_SchemaThatIsNoSmallFile(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		"/dev/zero":      `"/dev/zero" is not a file`,
		"answer.json":    "the schema is longer than 128 KiB",
		"../answer.json": "there is no file",
	} {
		text := strings.Replace(withSchema, "answer.json", "\""+strings.TrimSpace(schema)+"\"", 1)
		_, err := Parse(writeSchema(t, strings.Repeat(" ", 200<<10)), []byte(text), env)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", schema, err)
		}
	}
}
