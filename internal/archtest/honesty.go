package archtest

import (
	"fmt"
	"go/ast"
	"go/build"
	"path/filepath"
	"slices"
	"strings"
)

// honesty checks that tests cannot pass by not running, and that only main ends
// the process, so that deferred work elsewhere is always done.
func honesty(root string) ([]string, error) {
	all, err := sources(root)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, s := range all {
		if s.test {
			unbuilt, err := excluded(root, s)
			if err != nil {
				return nil, err
			}
			problems = append(problems, unbuilt...)
			problems = append(problems, skips(s)...)
		}
		problems = append(problems, exits(s)...)
	}
	return problems, nil
}

// excluded finds tests behind a build constraint that a plain `go test` does
// not meet.
func excluded(root string, s source) ([]string, error) {
	built, err := build.Default.MatchFile(filepath.Join(root, filepath.FromSlash(s.dir())), filepath.Base(s.name))
	if err != nil {
		return nil, fmt.Errorf("match %s: %w", s.name, err)
	}
	if built {
		return nil, nil
	}
	for _, d := range s.file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Test") {
			return []string{fmt.Sprintf("%s: %s is behind a build constraint and never runs", s.at(fn), fn.Name.Name)}, nil
		}
	}
	return nil, nil
}

// skips finds calls that leave a test out.
func skips(s source) []string {
	var problems []string
	for _, call := range calls(s.file) {
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			continue
		}
		skip := slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name)
		short := sel.Sel.Name == "Short" && isIdent(sel.X, "testing")
		if skip || short {
			problems = append(problems, fmt.Sprintf("%s: tests do not skip (%s)", s.at(call), sel.Sel.Name))
		}
	}
	return problems
}

// exits finds calls that end the process outside the function main.
func exits(s source) []string {
	local, logger := localName(s, "os"), localName(s, "log")
	var problems []string
	for _, d := range s.file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && mayExit(s, fn) {
			continue
		}
		for _, call := range calls(d) {
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			exit := local != "" && isIdent(sel.X, local) && sel.Sel.Name == "Exit"
			fatal := logger != "" && isIdent(sel.X, logger) && strings.HasPrefix(sel.Sel.Name, "Fatal")
			if exit || fatal {
				problems = append(problems, fmt.Sprintf("%s: only main ends the process (%s)", s.at(call), sel.Sel.Name))
			}
		}
	}
	return problems
}

func mayExit(s source, fn *ast.FuncDecl) bool {
	if s.test {
		return fn.Name.Name == "TestMain"
	}
	return fn.Recv == nil && fn.Name.Name == "main" && s.file.Name.Name == "main"
}

func calls(n ast.Node) []*ast.CallExpr {
	var all []*ast.CallExpr
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			all = append(all, call)
		}
		return true
	})
	return all
}
