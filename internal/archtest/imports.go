package archtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const module = "nightshift"

// columns are the packages of the architecture, from the commands on the left
// to what knows of nothing else on the right. A package imports from any column
// further right, and never from its own.
var columns = [][]string{
	{"cmd/worker", "cmd/enqueue"},
	{"internal/app"},
	{"tasks", "dashboard", "replay"},
	{"ladder", "batch"},
	{"breaker", "limit", "provider"},
	{"config"},
}

// helpers stand beside the columns: who may import each of them, and what each
// may import itself. Tests may import all of them.
var helpers = map[string]struct{ by, imports []string }{
	"internal/cli":        {by: []string{"cmd/worker", "cmd/enqueue"}, imports: []string{"config"}},
	"internal/sim":        {by: []string{"cmd/worker", "cmd/enqueue", "internal/app"}},
	"internal/schema":     {by: []string{"config", "ladder", "batch"}},
	"internal/convoy":     {by: []string{"breaker", "limit", "ladder", "batch", "tasks"}},
	"internal/standby":    {by: []string{"breaker", "limit", "ladder", "internal/app"}},
	"internal/notify":     {by: []string{"tasks", "internal/app", "internal/alert", "cmd/enqueue"}, imports: []string{"provider"}},
	"internal/alert":      {by: []string{"internal/app"}, imports: []string{"batch", "breaker", "limit", "provider", "internal/notify"}},
	"internal/traces":     {by: []string{"internal/app"}, imports: []string{"tasks", "batch", "breaker", "ladder", "provider"}},
	"internal/packer":     {by: []string{"ladder", "batch"}},
	"internal/jsonscan":   {by: []string{"provider", "batch", "replay"}},
	"internal/hours":      {by: []string{"config", "batch", "tasks", "internal/app", "cmd/worker", "cmd/enqueue"}},
	"internal/redistest":  {},
	"internal/scripttest": {},
	"internal/archtest":   {imports: []string{"internal/app", "config"}},
	"internal/deploytest": {imports: []string{"internal/app", "config"}},
}

// homes are the outside libraries with a place of their own: nobody else may
// import them, in tests neither, but for those of guests.
var homes = map[string][]string{
	"github.com/hibiken/asynq":               {"tasks", "dashboard"},
	"github.com/hibiken/asynqmon":            {"dashboard"},
	"github.com/go-analyze/charts":           {"dashboard", "replay"},
	"github.com/openai/openai-go":            {"provider"},
	"github.com/anthropics/anthropic-sdk-go": {"provider"},
	"github.com/santhosh-tekuri/jsonschema":  {"internal/schema"},
	"github.com/klauspost/compress":          {"internal/packer"},
	"code.dny.dev/ssrf":                      {"internal/notify"},
	"github.com/standard-webhooks":           {"internal/notify", "internal/alert", "internal/app", "tasks", "cmd/enqueue"},
	"github.com/DeRuina/timberjack":          {"replay"},
	"go.opentelemetry.io":                    {"internal/traces", "internal/app"},
	"github.com/prometheus/prometheus":       {"internal/deploytest"},
}

// guests are packages whose tests alone may import such a library: those of
// enqueue read results as people do who have the official SDK.
var guests = map[string][]string{
	"github.com/openai/openai-go": {"cmd/enqueue"},
}

// dashboardMayName are the names of asynq that asynqmon's options need.
var dashboardMayName = []string{
	"RedisConnOpt", "RedisClientOpt", "RedisClusterClientOpt", "RedisFailoverClientOpt",
}

// imports checks that imports point one way.
func imports(root string) ([]string, error) {
	all, err := sources(root)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, s := range all {
		if !known(owner(s.dir())) {
			problems = append(problems, fmt.Sprintf("%s: package %s has no place in the architecture; give it one in internal/archtest/imports.go", s.name, s.dir()))
			continue
		}
		for _, spec := range s.file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, fmt.Errorf("%s: read import: %w", s.at(spec), err)
			}
			if why := forbidden(s, name); why != "" {
				problems = append(problems, fmt.Sprintf("%s: %s", s.at(spec), why))
			}
		}
		problems = append(problems, queueNames(s)...)
	}
	return problems, nil
}

func known(dir string) bool {
	_, helper := helpers[dir]
	return helper || column(dir) >= 0
}

// owner returns the package of the architecture that a directory belongs to: a
// folder internal below a package is part of it.
func owner(dir string) string {
	if i := strings.Index(dir, "/internal/"); i > 0 {
		return dir[:i]
	}
	return dir
}

// column returns the index of a package's column, or -1.
func column(dir string) int {
	return slices.IndexFunc(columns, func(c []string) bool { return slices.Contains(c, dir) })
}

// forbidden says why a file must not import a path; "" where it may.
func forbidden(s source, name string) string {
	from := owner(s.dir())
	to, ours := strings.CutPrefix(name, module+"/")
	if !ours {
		return homeless(s, from, name)
	}
	to = owner(to)
	if to == from { // an external test package, or a part of the package
		return ""
	}
	if h, ok := helpers[to]; ok {
		if s.test || slices.Contains(h.by, from) {
			return ""
		}
		return fmt.Sprintf("%s must not import %s, which is for %s", from, to, audience(h.by))
	}
	if h, ok := helpers[from]; ok {
		if slices.Contains(h.imports, to) {
			return ""
		}
		return fmt.Sprintf("%s must not import %s", from, to)
	}
	if s.test && strings.HasPrefix(to, "internal/") {
		return ""
	}
	if i, j := column(from), column(to); j > i {
		return ""
	}
	return fmt.Sprintf("%s must not import %s: imports point one way (docs/architecture.md)", from, to)
}

func audience(by []string) string {
	if len(by) == 0 {
		return "tests alone"
	}
	return strings.Join(by, ", ") + " and tests"
}

func homeless(s source, from, name string) string {
	for lib, home := range homes {
		if name != lib && !strings.HasPrefix(name, lib+"/") {
			continue
		}
		if !slices.Contains(home, from) && !(s.test && slices.Contains(guests[lib], from)) {
			return fmt.Sprintf("%s must not import %s, which belongs to %s", from, name, strings.Join(home, ", "))
		}
	}
	return ""
}
