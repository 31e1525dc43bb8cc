//! Two nginx. They carry HTTP over HTTP/1.1 only: nginx has no CONNECT and speaks no HTTP/2 to upstreams here.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;

use super::ports;
use super::surroundings::{Started, Surroundings, THREADS};
use crate::process::Process;
use crate::traffic::{Entry, Kind, Link};

pub fn start(around: &Surroundings, folder: &Path) -> Started {
    let first = ports::free()?;
    let second = ports::free()?;
    let hops = [
        ("standalone", second, around.origin.http),
        ("dependent", first, second),
    ];

    let processes = hops.map(|(name, listen, to)| {
        let home = folder.join(name);
        fs::create_dir_all(&home)?;
        let file = home.join("nginx.conf");
        fs::write(&file, configuration(&home, listen, to))?;
        let log = home.join("error.log");

        let arguments = [
            "-p".as_ref(),
            home.as_os_str(),
            "-e".as_ref(),
            log.as_os_str(),
            "-c".as_ref(),
            file.as_os_str(),
        ];

        Process::start(name, folder, &around.programs.nginx, &arguments)
    });

    let entry = Entry {
        kind: Kind::Http,
        address: first,
        asks: false,
    };

    Ok((
        processes.into_iter().collect::<Result<_>>()?,
        vec![(Link::H1, entry)],
    ))
}

fn configuration(home: &Path, listen: SocketAddr, to: SocketAddr) -> String {
    let home = home.display();
    format!(
        "daemon off;\npid {home}/pid;\nworker_processes {THREADS};\nworker_rlimit_nofile 20000;\n\
         events {{ worker_connections 8192; }}\n\
         http {{\n  access_log off;\n  keepalive_requests 1000000000;\n  \
         client_body_temp_path {home}/body;\n  proxy_temp_path {home}/proxy;\n  fastcgi_temp_path {home}/fastcgi;\n  \
         uwsgi_temp_path {home}/uwsgi;\n  scgi_temp_path {home}/scgi;\n  \
         upstream next {{ server {to}; keepalive 1024; keepalive_requests 1000000000; }}\n  \
         server {{\n    listen {listen} backlog=4096 reuseport;\n    location / {{\n      proxy_pass http://next;\n      \
         proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n      proxy_set_header Host $host;\n      proxy_max_temp_file_size 0;\n    }}\n  }}\n}}\n"
    )
}
