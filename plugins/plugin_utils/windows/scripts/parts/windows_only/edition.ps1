# part: windows_only/edition
# PowerShell 7 reaches the cmdlets of the iSCSI target only through another process, which gives back texts in place of objects, and its .NET cannot
# make a folder with rights.
function Assert-WindowsPowerShell {
    if ($PSVersionTable.PSEdition -eq 'Core') { throw "PowerShell $($PSVersionTable.PSVersion) ran this script; Windows PowerShell 5.1 is needed." }
}
