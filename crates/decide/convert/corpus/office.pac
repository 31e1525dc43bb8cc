// The office.
var office = "PROXY proxy.example.org:8080; PROXY backup.example.org:8080; DIRECT";
function FindProxyForURL(url, host) {
  host = host.toLowerCase();
  if (isPlainHostName(host) || dnsDomainIs(host, ".corp.example") || host == "localhost")
    return "DIRECT";
  if (isInNet(host, "10.0.0.0", "255.0.0.0") && !isInNet(host, "10.9.0.0", "255.255.0.0")) {
    return "DIRECT";
  } else if (shExpMatch(host, "*.video.example") || shExpMatch(url, "https://tv.example/*")) {
    return "HTTPS video.example:443";
  }
  if (weekdayRange("SAT", "SUN")) return "DIRECT";
  if (url.substring(0, 6) == "https:" && /^secure[0-9]+\./.test(host)) return 'SOCKS5 10.0.0.9:1080';
  return office;
}
