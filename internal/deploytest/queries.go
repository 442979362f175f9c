package deploytest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"nightshift/internal/app"
)

// ofPrometheus are the labels that Prometheus adds to what it scrapes.
var ofPrometheus = []string{"job", "instance"}

// series returns the labels of each series that a worker exports, by its name; a
// histogram is three.
func series() map[string][]string {
	all := map[string][]string{
		"ALERTS":                        {"alertname", "alertstate", "severity"}, // of Prometheus itself
		"process_resident_memory_bytes": nil,
	}
	for _, m := range app.MetricList() {
		if m.Type != app.Histogram {
			all[m.Name] = m.Labels
			continue
		}
		all[m.Name+"_sum"], all[m.Name+"_count"] = m.Labels, m.Labels
		all[m.Name+"_bucket"] = append(slices.Clone(m.Labels), "le")
	}
	return all
}

// query returns what is wrong with a PromQL expression: that it is none, or names
// what no worker exports.
func query(text string) (problems []string) {
	expr, err := parser.ParseExpr(text)
	if err != nil {
		return []string{fmt.Sprintf("%q: %v", text, err)}
	}
	all, selected := series(), 0
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			selected++
			problems = append(problems, selector(n, all)...)
		case *parser.AggregateExpr:
			if !n.Without {
				problems = append(problems, labels(n.Expr, n.Grouping, all)...)
			}
		}
		return nil
	})
	if selected == 0 {
		problems = append(problems, fmt.Sprintf("%q asks for no metric", text))
	}
	return problems
}

// selector checks the name and the labels of what is selected.
func selector(n *parser.VectorSelector, all map[string][]string) (problems []string) {
	has, ok := all[n.Name]
	if !ok {
		return []string{fmt.Sprintf("no worker exports %s", n.Name)}
	}
	for _, m := range n.LabelMatchers {
		if m.Name != "__name__" && !slices.Contains(has, m.Name) && !slices.Contains(ofPrometheus, m.Name) {
			problems = append(problems, fmt.Sprintf("%s has no label %s", n.Name, m.Name))
		}
	}
	return problems
}

// labels checks that what is summed up has the labels that are kept.
func labels(of parser.Expr, kept []string, all map[string][]string) (problems []string) {
	parser.Inspect(of, func(node parser.Node, _ []parser.Node) error {
		n, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		for _, l := range kept {
			if has, known := all[n.Name]; known && !slices.Contains(has, l) && !slices.Contains(ofPrometheus, l) {
				problems = append(problems, fmt.Sprintf("%s has no label %s", n.Name, l))
			}
		}
		return nil
	})
	return problems
}

// template returns what is wrong with the labels that a text of an alert or a
// legend names, given those that its expression keeps.
func template(text string, kept []string) (problems []string) {
	for _, part := range strings.Split(text, "$labels.")[1:] {
		name := part[:len(part)-len(strings.TrimLeft(part, "abcdefghijklmnopqrstuvwxyz_"))]
		if !slices.Contains(kept, name) {
			problems = append(problems, fmt.Sprintf("its expression keeps no label %q", name))
		}
	}
	return problems
}

// kept returns the labels by which an expression sums up, at any depth.
func kept(text string) (all []string) {
	expr, err := parser.ParseExpr(text)
	if err != nil {
		return nil
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if n, ok := node.(*parser.AggregateExpr); ok && !n.Without {
			all = append(all, n.Grouping...)
		}
		return nil
	})
	return all
}
