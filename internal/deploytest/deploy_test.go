package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// root is the repository, seen from this package's directory.
const root = "../.."

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// promtool runs Prometheus's own tool; .ci/deps installs it.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is missing; run: make deps")
	}
	cmd := exec.Command(tool, args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestAlerts(t *testing.T) {
	for _, p := range alerts(read(t, "deploy/prometheus/rules.yml"), read(t, "deploy/prometheus/rules_test.yml"), read(t, "docs/operations.md")) {
		t.Error(p)
	}
	promtool(t, "test", "rules", "deploy/prometheus/rules_test.yml")
	promtool(t, "check", "config", "--syntax-only", "deploy/prometheus/prometheus.yml")
}

func TestDashboard(t *testing.T) {
	var source struct{ Datasources []struct{ UID string } }
	if err := yaml.Unmarshal(read(t, "deploy/grafana/provisioning/datasources/prometheus.yaml"), &source); err != nil {
		t.Fatal(err)
	}
	text := read(t, "deploy/grafana/nightshift.json")
	for _, p := range panels(text, source.Datasources[0].UID) {
		t.Error(p)
	}
	for name := range series() { // what is exported is also shown
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if strings.HasPrefix(name, "nightshift_") && !strings.Contains(string(text), name) {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// The queries that the documentation gives work too.
func TestQueriesOfThePages(t *testing.T) {
	n := 0
	for _, page := range []string{"docs/metrics.md", "docs/operations.md"} {
		for _, m := range regexp.MustCompile("\\? \\| `([^`]+)` \\|").FindAllStringSubmatch(string(read(t, page)), -1) {
			n++
			for _, why := range query(m[1]) {
				t.Errorf("%s: %s", page, why)
			}
		}
	}
	if n < 10 {
		t.Errorf("found %d queries", n)
	}
}

// Each check finds its mistake, and nothing where there is none.
func TestChecksFindMistakes(t *testing.T) {
	const right = `max by (queue) (nightshift_queue_paused) == 1`
	for expr, want := range map[string][]string{
		right: nil,
		`sum by (le, kind) (rate(nightshift_redis_roundtrip_seconds_bucket{job="nightshift"}[5m]))`: nil,
		`max by (queue (`:                               {`"max by (queue (": 1:15: parse error: unexpected "(" in grouping opts, expected "," or ")"`},
		`nightshift_queues_paused == 1`:                 {"no worker exports nightshift_queues_paused"},
		`nightshift_queue_paused{model="a"}`:            {"nightshift_queue_paused has no label model"},
		`max by (model) (nightshift_queue_paused) == 1`: {"nightshift_queue_paused has no label model"},
		`nightshift_call_duration_seconds`:              {"no worker exports nightshift_call_duration_seconds"},
		`vector(1)`:                                     {`"vector(1)" asks for no metric`},
	} {
		if got := query(expr); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}

	const (
		rule = `{groups: [{rules: [{alert: A, expr: "` + right + `", labels: {severity: warning}, annotations: {summary: "{{ $labels.queue }}", description: d, runbook: "docs/operations.md#a"}}]}]}`
		test = "- alertname: A\n{alertname: A, x}\n"
		page = "\n### A\n"
	)
	for name, c := range map[string]struct{ rule, test, page, want string }{
		"right":         {rule, test, page, ""},
		"severity":      {strings.Replace(rule, "warning", "low", 1), test, page, `A: severity "low" is none of critical, warning`},
		"no text":       {strings.Replace(rule, "description: d, ", "", 1), test, page, "A: has no description"},
		"label":         {strings.Replace(rule, "$labels.queue", "$labels.model", 1), test, page, `A: its expression keeps no label "model"`},
		"heading":       {rule, test, "\n### B\n", `A: docs/operations.md has no heading for its runbook "docs/operations.md#a"`},
		"never fires":   {rule, "{alertname: A, x}", page, "A: no test has it fire"},
		"always fires":  {rule, "- alertname: A\n", page, "A: no test has it keep silent"},
		"metric":        {strings.Replace(rule, "_paused", "_poised", 1), test, page, "A: no worker exports nightshift_queue_poised"},
		"nothing in it": {"{}", test, page, "there are no rules"},
	} {
		if got := strings.Join(alerts([]byte(c.rule), []byte(c.test), []byte(c.page)), "; "); got != c.want {
			t.Errorf("%s: %s; want %s", name, got, c.want)
		}
	}

	const panel = `{"panels":[{"id":1,"type":"stat","title":"P","datasource":{"uid":"n"},"gridPos":{"h":4,"w":24},"targets":[{"expr":"max by (queue) (nightshift_queue_paused{queue=~\"$queue\"})","legendFormat":"{{queue}}"}]}],"templating":{"list":[{"name":"queue","definition":"label_values(nightshift_queue_paused, queue)"}]}}`
	for name, c := range map[string]struct{ from, to, want string }{
		"right":       {"", "", ""},
		"metric":      {"nightshift_queue_paused{", "nightshift_queue_poised{", "P: no worker exports nightshift_queue_poised"},
		"legend":      {"{{queue}}", "{{model}}", `P: its expression keeps no label "model"`},
		"data source": {`"uid":"n"`, `"uid":"m"`, `P: its data source "m" is not provisioned`},
		"too wide":    {`"w":24`, `"w":25`, "P: does not fit the page"},
		"variable":    {"paused, queue)", "paused, model)", "variable queue: nightshift_queue_paused has no label model"},
		"not JSON":    {`{"panels"`, `{panels`, "invalid character 'p' looking for beginning of object key string"},
	} {
		if got := strings.Join(panels([]byte(strings.Replace(panel, c.from, c.to, 1)), "n"), "; "); got != c.want {
			t.Errorf("%s: %s; want %s", name, got, c.want)
		}
	}
}
