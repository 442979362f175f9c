package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-analyze/charts"

	"nightshift/breaker"
	"nightshift/provider"
)

const (
	// maxPoints is how many points a line has at most, and maxBars how many models a
	// chart of them.
	maxPoints = 145
	maxBars   = 20
	// chartWidth is that of the image; the page scales it.
	chartWidth, chartHeight = 600, 180
	// labelSize is that of a chart's texts, in points.
	labelSize = 9
)

// chartView is a chart on a page: an image of its own for light and for dark,
// since what is drawn here has its colours inside, which the pages' policy
// allows in no other way.
type chartView struct {
	Title, Note   string
	Light, Dark   string // paths
	Alt           string // what it shows, in words
	Width, Height int
}

// chart names an image; v changes when the image does.
func (d *Dashboard) chart(name, title, note, alt string, height int, v int64) chartView {
	p := d.door.Path("/charts/"+name) + "?v=" + strconv.FormatInt(v, 10)
	return chartView{title, note, p, p + "&theme=dark", alt, chartWidth, height}
}

// nightChart is how fast the night went and what it cost; nil: there is nothing to
// see yet.
func (d *Dashboard) nightChart(s *seen) []chartView {
	n := newNight(s.minutes, s.now)
	if len(n.lines) < 2 {
		return nil
	}
	at := s.now.Unix() / 60
	last := len(n.lines) - 1
	return []chartView{
		d.chart("lines", "Lines a minute", "since "+d.when(n.from), fmt.Sprintf(
			"Lines a minute since %s: now %.0f, at most %.0f.", d.when(n.from), n.lines[last], slices.Max(n.lines)), chartHeight, at),
		d.chart("cost", "Cost, and waste below it", "USD since "+d.when(n.from), fmt.Sprintf(
			"Cost since %s, added up: %s, of it wasted %s.", d.when(n.from), usd(provider.Dollars(n.cost[last])), usd(provider.Dollars(n.waste[last]))), chartHeight, at),
	}
}

// night is the minutes of the night at even distances.
type night struct {
	from               time.Time
	step               time.Duration
	lines, cost, waste []float64 // lines a minute; USD, added up
}

// newNight lays minutes out from the first to now. The minute that has just begun
// is left out: it would look like a fall.
func newNight(minutes []Minute, now time.Time) night {
	if len(minutes) == 0 {
		return night{}
	}
	n := night{from: minutes[0].At, step: time.Minute}
	span := now.Truncate(time.Minute).Sub(n.from)
	for _, step := range []time.Duration{2 * time.Minute, 5 * time.Minute, 10 * time.Minute} {
		if int(span/n.step) >= maxPoints {
			n.step = step
		}
	}
	points := min(int(span/n.step), maxPoints)
	if points < 1 {
		return n
	}
	n.lines, n.cost, n.waste = make([]float64, points), make([]float64, points), make([]float64, points)
	for _, m := range minutes {
		i := int(m.At.Sub(n.from) / n.step)
		if i < 0 || i >= points {
			continue
		}
		n.lines[i] += float64(m.Lines) / n.step.Minutes()
		n.cost[i] += m.Cost.Float()
		n.waste[i] += m.Waste.Float()
	}
	for i := 1; i < points; i++ {
		n.cost[i] += n.cost[i-1]
		n.waste[i] += n.waste[i-1]
	}
	return n
}

// labels are the times of the points.
func (d *Dashboard) labels(n night) []string {
	all := make([]string, len(n.lines))
	for i := range all {
		all[i] = n.from.Add(time.Duration(i) * n.step).In(d.opts.Location).Format("15:04")
	}
	return all
}

// latencyChart is how long the models take to answer; nil: nobody knows.
func (d *Dashboard) latencyChart(s *seen) []chartView {
	all := slowest(s.breakers, s.figures)
	if len(all) == 0 {
		return nil
	}
	alt := "Average latency of answers:"
	for _, m := range all {
		alt += " " + m.name + " " + took(m.latency) + ";"
	}
	return []chartView{d.chart("latency", "Latency by model", "average of the last answers", alt, barsHeight(len(all)), s.now.Unix()/30)}
}

func barsHeight(n int) int { return 40 + 24*n }

// modelLatency is how long a model takes.
type modelLatency struct {
	name    string
	latency time.Duration
}

func slowest(all []breaker.Status, figures map[string]Figures) (bars []modelLatency) {
	for _, b := range all {
		if f := figures[b.Key.Model]; b.Scope == breaker.ScopeModel && f.Latency > 0 {
			bars = append(bars, modelLatency{b.Key.Model, f.Latency})
		}
	}
	slices.SortFunc(bars, func(a, b modelLatency) int {
		return cmp.Or(cmp.Compare(b.latency, a.latency), cmp.Compare(a.name, b.name))
	})
	return bars[:min(len(bars), maxBars)]
}

// serveChart draws one chart.
func (d *Dashboard) serveChart(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readLimit)
	defer cancel()
	theme := chartTheme(r.URL.Query().Get("theme") == "dark")
	var image []byte
	var err error
	var s *seen
	switch r.PathValue("name") {
	case "lines", "cost":
		s = d.see(ctx, partMinutes)
		image, err = d.drawNight(newNight(s.minutes, s.now), r.PathValue("name"), theme)
	case "latency":
		s = d.see(ctx, partBreakers, partFigures)
		image, err = drawLatency(slowest(s.breakers, s.figures), theme)
	default:
		http.NotFound(w, r)
		return
	}
	switch {
	case len(s.missing) > 0:
		http.Error(w, "the figures cannot be read right now; the log says why", http.StatusServiceUnavailable)
	case err != nil:
		d.opts.Logger.Error("draw chart", "chart", r.PathValue("name"), "error", err)
		http.Error(w, "the chart cannot be drawn; the log says why", http.StatusInternalServerError)
	case image == nil:
		http.NotFound(w, r) // there is nothing to see yet
	default:
		w.Header().Set("Content-Type", "image/svg+xml")
		// Of nothing but this image: its own styles.
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
		_, _ = w.Write(image)
	}
}

func (d *Dashboard) drawNight(n night, name string, theme charts.ColorPalette) ([]byte, error) {
	if len(n.lines) < 2 {
		return nil, nil
	}
	values := [][]float64{n.lines}
	format := func(v float64) string { return count(int64(v + 0.5)) }
	if name == "cost" {
		values = [][]float64{n.cost, n.waste}
		format = func(v float64) string { return usd(provider.Dollars(v)) }
	}
	o := charts.NewLineChartOptionWithData(values)
	o.Theme, o.ValueFormatter = theme, format
	o.Padding = charts.Box{Left: 4, Top: 10, Right: 12, Bottom: 2}
	o.FillArea, o.FillOpacity, o.LineStrokeWidth = charts.Ptr(true), 40, 1.75
	o.Symbol = charts.Symbol{Shape: charts.SymbolNone}
	o.Legend.Show = charts.Ptr(false)
	o.XAxis.Labels, o.XAxis.LabelCount, o.XAxis.BoundaryGap = d.labels(n), min(7, len(n.lines)), charts.Ptr(false)
	o.YAxis[0].Min, o.YAxis[0].LabelCount, o.YAxis[0].ValueFormatter = charts.Ptr(0.0), 4, format
	if top := slices.Max(values[0]); top > 0 && top < 4 {
		o.YAxis[0].Max = charts.Ptr(top * 1.05) // else the library leaves room for more
	}
	o.XAxis.LabelFontStyle.FontSize, o.YAxis[0].LabelFontStyle.FontSize = labelSize, labelSize
	p := painter(chartHeight, theme)
	if err := p.LineChart(o); err != nil {
		return nil, err
	}
	return p.Bytes()
}

func drawLatency(all []modelLatency, theme charts.ColorPalette) ([]byte, error) {
	if len(all) == 0 {
		return nil, nil
	}
	values, names := make([]float64, len(all)), make([]string, len(all))
	for i, m := range all { // the chart begins at the bottom
		values[len(all)-1-i], names[len(all)-1-i] = m.latency.Seconds(), m.name
	}
	format := func(v float64) string { return took(time.Duration(v * float64(time.Second))) }
	o := charts.NewBarChartOptionWithData([][]float64{values})
	o.Horizontal, o.Theme, o.ValueFormatter = true, theme, format
	// The library measures names in its own font; readers have others, up to a
	// fifth wider, which would be cut.
	wider := 0
	for _, n := range names {
		wider = max(wider, len(n)*6/5)
	}
	o.Padding = charts.Box{Left: 4 + wider, Top: 4, Right: 60, Bottom: 2}
	o.CategoryAxis.LabelOffset.Left = -wider
	o.Legend.Show = charts.Ptr(false)
	o.CategoryAxis.Labels, o.BarSize = names, 10
	o.ValueAxis[0].Min, o.ValueAxis[0].LabelCount = charts.Ptr(0.0), 4
	o.ValueAxis[0].ValueFormatter = func(v float64) string {
		if v <= 0 {
			return "0 s"
		}
		return format(v)
	}
	o.CategoryAxis.LabelFontStyle.FontSize, o.ValueAxis[0].LabelFontStyle.FontSize = labelSize, labelSize
	o.SeriesList[0].Label.Show, o.SeriesList[0].Label.ValueFormatter = charts.Ptr(true), format
	o.SeriesList[0].Label.FontStyle.FontSize = labelSize
	p := painter(barsHeight(len(all)), theme)
	if err := p.BarChart(o); err != nil {
		return nil, err
	}
	return p.Bytes()
}

func painter(height int, theme charts.ColorPalette) *charts.Painter {
	return charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: chartWidth, Height: height, Theme: theme})
}

// chartTheme has the colours of static/style.css.
func chartTheme(dark bool) charts.ColorPalette {
	pick := func(light, inTheDark string) charts.Color {
		if dark {
			return charts.ColorFromHex(inTheDark)
		}
		return charts.ColorFromHex(light)
	}
	text, line := pick("#5b6178", "#a3a9c6"), pick("#dfe2ec", "#2b3054")
	return charts.MakeTheme(charts.ThemeOption{
		IsDarkMode: dark, AxisStrokeColor: line, AxisSplitLineColor: line, BackgroundColor: pick("#ffffff", "#191d38"),
		TextColor: text, SeriesColors: []charts.Color{pick("#3a55c9", "#8ea2ff"), pick("#b3261e", "#ff9a92")},
	})
}
