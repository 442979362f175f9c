package deploytest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

type board struct {
	UID        string
	Panels     []panel
	Templating struct {
		List []struct{ Name, Definition string }
	}
	Annotations struct {
		List []struct{ Name, Expr string }
	}
}

type panel struct {
	ID         int
	Type       string
	Title      string
	Datasource struct{ UID string }
	GridPos    struct{ X, Y, W, H int }
	Targets    []struct{ Expr, LegendFormat string }
}

// values of a variable: what Grafana puts in its place.
var grafana = strings.NewReplacer("$__rate_interval", "1m", "$queue", "overnight", "$model", "a/one")

// labelValues is the query of a variable: label_values(METRIC, LABEL).
var labelValues = regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)

// panels checks a dashboard of Grafana; source is the uid of the Prometheus that is
// provisioned beside it.
func panels(text []byte, source string) (problems []string) {
	var b board
	if err := json.Unmarshal(text, &b); err != nil {
		return []string{err.Error()}
	}
	ids := map[int]bool{}
	for _, p := range b.Panels {
		if ids[p.ID] {
			problems = append(problems, fmt.Sprintf("%s: its id %d is another panel's", p.Title, p.ID))
		}
		ids[p.ID] = true
		for _, why := range p.check(source) {
			problems = append(problems, p.Title+": "+why)
		}
	}
	for _, v := range b.Templating.List {
		m := labelValues.FindStringSubmatch(v.Definition)
		if m == nil {
			problems = append(problems, fmt.Sprintf("variable %s: %q asks for no labels", v.Name, v.Definition))
			continue
		}
		for _, why := range query("sum by (" + m[2] + ") (" + m[1] + ")") {
			problems = append(problems, "variable "+v.Name+": "+why)
		}
	}
	for _, a := range b.Annotations.List {
		problems = append(problems, query(a.Expr)...)
	}
	return problems
}

func (p panel) check(source string) (problems []string) {
	if p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H == 0 {
		problems = append(problems, "does not fit the page")
	}
	if p.Type == "row" {
		return problems
	}
	if p.Datasource.UID != source {
		problems = append(problems, fmt.Sprintf("its data source %q is not provisioned", p.Datasource.UID))
	}
	if len(p.Targets) == 0 {
		problems = append(problems, "shows nothing")
	}
	for _, t := range p.Targets {
		problems = append(problems, query(grafana.Replace(t.Expr))...)
		for _, part := range strings.Split(t.LegendFormat, "{{")[1:] {
			name, _, _ := strings.Cut(part, "}}")
			problems = append(problems, template("$labels."+name, append(kept(grafana.Replace(t.Expr)), ofPrometheus...))...)
		}
	}
	return problems
}
