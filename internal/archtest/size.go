package archtest

import (
	"fmt"
	"go/ast"
)

// The longest file and function, in lines.
const (
	maxFile     = 400
	maxFunction = 80
)

// size checks that files and functions stay short, those of tests too: a table of
// cases that grows beyond them has families to be split by. Generated files may
// be longer.
func size(root string) ([]string, error) {
	all, err := sources(root)
	if err != nil {
		return nil, err
	}
	var problems []string
	for _, s := range all {
		if s.generated() {
			continue
		}
		if n := s.fset.File(s.file.Pos()).LineCount(); n > maxFile {
			problems = append(problems, fmt.Sprintf("%s has %d lines, more than %d", s.name, n, maxFile))
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if fn, ok := n.(*ast.FuncDecl); ok {
				if lines := length(s, fn); lines > maxFunction {
					problems = append(problems, fmt.Sprintf("%s: %s has %d lines, more than %d", s.at(fn), fn.Name.Name, lines, maxFunction))
				}
			}
			return true
		})
	}
	return problems, nil
}

func length(s source, n ast.Node) int {
	return s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
}
