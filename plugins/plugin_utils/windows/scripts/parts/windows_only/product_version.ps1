# part: windows_only/product_version
# The version that a program's file carries; nothing for one without.
function Read-ProductVersion {
    param([string]$Path)
    (Get-Item -LiteralPath $Path).VersionInfo.ProductVersion
}
