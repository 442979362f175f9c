package deploytest

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
)

type rules struct {
	Groups []struct{ Rules []rule }
}

type rule struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

// alerts checks a file of alert rules against the tests of them and the page that
// their runbooks are on. That the rules fire when they must, promtool tests.
func alerts(file, tests, runbook []byte) (problems []string) {
	var all rules
	if err := yaml.Unmarshal(file, &all); err != nil {
		return []string{err.Error()}
	}
	if len(all.Groups) == 0 {
		return []string{"there are no rules"}
	}
	for _, g := range all.Groups {
		for _, r := range g.Rules {
			for _, why := range r.check(string(tests), string(runbook)) {
				problems = append(problems, r.Alert+": "+why)
			}
		}
	}
	return problems
}

func (r rule) check(tests, runbook string) (problems []string) {
	problems = query(r.Expr)
	if s := r.Labels["severity"]; s != "critical" && s != "warning" {
		problems = append(problems, fmt.Sprintf("severity %q is none of critical, warning", s))
	}
	for _, key := range []string{"summary", "description", "runbook"} {
		text := r.Annotations[key]
		if text == "" {
			problems = append(problems, "has no "+key)
		}
		problems = append(problems, template(text, kept(r.Expr))...)
	}
	anchor, ok := strings.CutPrefix(r.Annotations["runbook"], "docs/operations.md#")
	if !ok || !strings.Contains(strings.ToLower(runbook), "\n### "+anchor+"\n") {
		problems = append(problems, fmt.Sprintf("docs/operations.md has no heading for its runbook %q", r.Annotations["runbook"]))
	}
	if !strings.Contains(tests, "- alertname: "+r.Alert+"\n") {
		problems = append(problems, "no test has it fire")
	}
	if !strings.Contains(tests, "{alertname: "+r.Alert+",") {
		problems = append(problems, "no test has it keep silent")
	}
	return problems
}
