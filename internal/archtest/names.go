package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
)

// queueNames finds the names of asynq that the dashboard must not use: it
// imports asynq for asynqmon's options alone. Its tests need tasks to show.
func queueNames(s source) []string {
	if s.test || s.dir() != "dashboard" {
		return nil
	}
	local := localName(s, "github.com/hibiken/asynq")
	if local == "" {
		return nil
	}
	var problems []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if ok && isIdent(sel.X, local) && !slices.Contains(dashboardMayName, sel.Sel.Name) {
			problems = append(problems, fmt.Sprintf("%s: dashboard must not use asynq.%s: it may name asynq only for asynqmon's options", s.at(sel), sel.Sel.Name))
		}
		return true
	})
	return problems
}

// localName returns the name under which a file uses an import, or "".
func localName(s source, name string) string {
	for _, spec := range s.file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err != nil || p != name {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(name)
	}
	return ""
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
