//! Parts of pictures.

/// A whole picture.
pub fn picture(width: f64, height: f64, content: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{content}</svg>\n"
    )
}

/// Words at a place; they begin, end or have their middle there.
pub fn text(x: f64, y: f64, anchor: &str, words: &str) -> String {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>\n")
}

/// A line through these places, each a distance from the left and one from the top.
pub fn curve(places: impl Iterator<Item = [f64; 2]>, colour: &str) -> String {
    let path: Vec<_> = places.map(|[x, y]| format!("{x:.1} {y:.1}")).collect();
    format!(
        "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n",
        path.join("L")
    )
}

/// The two axes of a panel: the left one from `top`, the lower one to `right`, with the largest value beside the left one.
pub fn axes(left: f64, right: f64, top: f64, bottom: f64, most: &str) -> String {
    let lines = format!(
        "<path d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\" fill=\"none\" stroke=\"#999999\"/>\n"
    );
    let most = text(left - 4.0, top + 4.0, "end", most);
    [lines, most, text(left - 4.0, bottom, "end", "0")].concat()
}

/// Content that is drawn from this place on.
pub fn placed(x: f64, y: f64, content: &str) -> String {
    format!("<g transform=\"translate({x:.0} {y:.0})\">\n{content}</g>\n")
}
