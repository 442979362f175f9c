package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// keyPatterns returns the path of every key below a type, "*" for names and
// indices, in the order of the structs.
func keyPatterns(t reflect.Type, prefix string) []string {
	switch t.Kind() {
	case reflect.Pointer:
		return keyPatterns(t.Elem(), prefix)
	case reflect.Map, reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return keyPatterns(t.Elem(), prefix+".*")
		}
	case reflect.Struct:
		var keys []string
		for i := range t.NumField() {
			if key := t.Field(i).Tag.Get("yaml"); key != "" && key != "-" {
				keys = append(keys, keyPatterns(t.Field(i).Type, strings.TrimPrefix(prefix+"."+key, "."))...)
			}
		}
		return keys
	}
	return []string{prefix}
}

func allKeys() []string { return keyPatterns(reflect.TypeFor[Config](), "") }

// pattern makes a path comparable with keyPatterns.
func pattern(p path) string {
	out := slices.Clone(p)
	for i, s := range out {
		named := i == 1 && slices.Contains([]string{"providers", "models", "ladders", "queues"}, out[0]) || i == 2 && out[1] == "producers"
		if named || strings.HasPrefix(s, "[") {
			out[i] = "*"
		}
	}
	return strings.Join(out, ".")
}

// decodeSample returns the places that the sample sets.
func decodeSample(t *testing.T) map[string]place {
	t.Helper()
	ps := &problems{file: "sample.yaml"}
	d := &decoder{problems: ps, places: map[string]place{}}
	d.decode(parseTree(Sample(), ps), reflect.ValueOf(&Config{}).Elem(), "", nil, position{})
	if err := ps.err(); err != nil {
		t.Fatal(err)
	}
	places := map[string]place{}
	for _, pl := range d.places {
		places[pattern(pl.path)] = pl
	}
	return places
}

func TestSample_Loads(t *testing.T) {
	t.Parallel()
	cfg, err := Parse("nightshift.yaml", Sample(), env)
	if err != nil {
		t.Fatal(err)
	}
	def := mustParse(t, minimal)
	cfg.Guard.Producers = nil // {} in the sample
	for _, blocks := range [][2]any{
		{def.Redis, cfg.Redis},
		{def.Timezone, cfg.Timezone},
		{def.Queues, cfg.Queues},
		{def.Breaker, cfg.Breaker},
		{def.Guard, cfg.Guard},
		{def.Batches, cfg.Batches},
		{def.Worker, cfg.Worker},
		{def.CallLog, cfg.CallLog},
		{def.Dashboard, cfg.Dashboard},
		{def.Metrics, cfg.Metrics},
	} {
		if diff := cmp.Diff(blocks[0], blocks[1]); diff != "" {
			t.Errorf("the sample departs from the defaults (-default +sample):\n%s", diff)
		}
	}
}

// TestSample_ShowsEveryKey: every key stands in it, or in a comment of it where
// it would exclude another.
func TestSample_ShowsEveryKey(t *testing.T) {
	t.Parallel()
	places := decodeSample(t)
	for _, key := range allKeys() {
		name := key[strings.LastIndex(key, ".")+1:]
		_, set := places[key]
		commented := regexp.MustCompile(`(?m)#.*\b` + regexp.QuoteMeta(name) + `:`).Match(Sample())
		asInBlock := strings.Contains(key, ".*.breaker.")
		if !set && !commented && !asInBlock {
			t.Errorf("the sample does not show %s", key)
		}
	}
}

// TestSample_NamesNoRedis: `enqueue run` embeds one unless one is named.
func TestSample_NamesNoRedis(t *testing.T) {
	t.Parallel()
	cfg, err := Parse("nightshift.yaml", Sample(), env)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Redis.Source != FromDefault {
		t.Errorf("the Redis is named by the %s", cfg.Redis.Source)
	}
	named := strings.Replace(string(Sample()), "# url: redis://127.0.0.1:6379/0 ", "url: redis://10.0.0.1:6379/0 ", 1)
	if cfg, err = Parse("nightshift.yaml", []byte(named), env); err != nil || cfg.Redis.Source != FromFile {
		t.Errorf("its line cannot be taken into use: %v", err)
	}
}

func TestSample_NewcomerEditsFewLines(t *testing.T) {
	t.Parallel()
	if n := strings.Count(string(Sample()), "# EDIT"); n == 0 || n > 11 { // one of them explains the word
		t.Errorf("%d lines are marked EDIT", n)
	}
}
