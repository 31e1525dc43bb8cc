//! A pair of nginx, of which the second has the rules.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;

use super::super::bench::PaperBench;
use crate::process::Process;

/// The rules of the gate, as a map from role and site.
const RULES: &str = "  map \"$http_x_role $host\" $is_allowed { default 0; \"member web.lab\" 1; \"admin web.lab\" 1; \"admin admin.lab\" 1; }\n";

/// One nginx.
struct NginxProxy {
    name: &'static str,
    listen: SocketAddr,
    to: SocketAddr,
    has_rules: bool,
}

/// Starts both.
///
/// # Errors
/// When one cannot be started.
pub(super) fn pair(
    bench: &PaperBench<'_>,
    [first, second]: [SocketAddr; 2],
    site: SocketAddr,
) -> Result<Vec<Process>> {
    let pair = [
        NginxProxy {
            name: "nginx-entry",
            listen: first,
            to: second,
            has_rules: false,
        },
        NginxProxy {
            name: "nginx-gate",
            listen: second,
            to: site,
            has_rules: true,
        },
    ];
    pair.iter().map(|proxy| start(bench, proxy)).collect()
}

fn start(bench: &PaperBench<'_>, proxy: &NginxProxy) -> Result<Process> {
    let home = bench.folder().join(proxy.name);
    fs::create_dir(&home)?;
    let config = home.join("nginx.conf");
    fs::write(&config, file(&home, proxy))?;
    let words = [
        "-p".as_ref(),
        home.as_os_str(),
        "-c".as_ref(),
        config.as_os_str(),
    ];
    Process::start(proxy.name, bench.folder(), Path::new("nginx"), &words)
}

fn file(home: &Path, proxy: &NginxProxy) -> String {
    let home = home.display();
    let NginxProxy { listen, to, .. } = proxy;
    let (rules, check) = match proxy.has_rules {
        true => (RULES, "if ($is_allowed = 0) { return 403; }"),
        false => ("", ""),
    };
    format!(
        "daemon off;\npid {home}/pid;\nerror_log {home}/error.log;\nworker_processes 2;\nevents {{ worker_connections 1024; }}\n\
         http {{\n  access_log off;\n  client_body_temp_path {home}/body;\n  proxy_temp_path {home}/proxy;\n  \
         fastcgi_temp_path {home}/fastcgi;\n  uwsgi_temp_path {home}/uwsgi;\n  scgi_temp_path {home}/scgi;\n{rules}  \
         upstream next {{ server {to}; keepalive 64; }}\n  server {{\n    listen {listen};\n    location / {{\n      {check}\n      \
         proxy_pass http://next;\n      proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n      \
         proxy_set_header Host $host;\n      proxy_max_temp_file_size 0;\n    }}\n  }}\n}}\n"
    )
}
